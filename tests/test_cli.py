"""The command line as a user meets it."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from nonneg import Features
from nonneg.cli._commands import train
from nonneg.training import recipes

SHORT = ["--epochs", "2", "--warmup-epochs", "1"]


@dataclass
class Result:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def nonneg(monkeypatch, command, tmp_path):
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: Result(*command(*arguments))


def in_a_process(*arguments: str, cwd: Path, **environment: str) -> Result:
    command = [sys.executable, "-m", "nonneg", *arguments]
    env = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=cwd, env=env)
    return Result(done.returncode, done.stdout, done.stderr)


def refused(result: Result) -> str:
    """One sentence on standard error, exit code 2, no traceback."""
    assert result.returncode == 2, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("nonneg: ")]
    assert len(lines) == 1
    return lines[0]


def test_the_help_of_train_names_the_recipes_there_are():
    named = re.search(r"recipe: (.*), or the path", train.__doc__, re.DOTALL)[1].replace(",", " ").split()
    assert sorted(named) == sorted(recipes())


def test_help_does_not_wait_for_torch():
    code = (
        "import sys; sys.argv = ['nonneg', '--help']\n"
        "from nonneg.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for command in ("demo", "train", "theory", "verify"):
        assert command in result.stdout


def test_train_writes_a_run_that_loads(nonneg, tmp_path):
    result = nonneg("train", "digits", *SHORT, "--views.noise", "0")
    assert result.returncode == 0, result.stderr
    assert "Trained: runs/digits" in result.stdout
    assert "noise = 0.0" in (tmp_path / "runs/digits/config.toml").read_text()
    assert "pass --overwrite" in refused(nonneg("train", "digits", *SHORT))
    assert nonneg("train", "digits", *SHORT, "--overwrite").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "nowhere.toml"], "recipe 'nowhere.toml' is neither a file nor one of the recipes cifar10"),
        (["train", "digits", "--epochs", "0"], "epochs is 0, expected at least 1"),
        (["train", "digits", "--data", "mnist"], "data is 'mnist', expected one of digits, shapes"),
        (["train", "digits", "--batch-size", "5000"], "expected at most the 1400 samples"),
        (["train", "digits", "--lr", "inf"], "lr is inf, expected a finite number"),
        (["train", "digits", "--views.rotate", "nan"], "views.rotate is nan, expected a finite number"),
        (["train", "digits", "--features", "1000000000000"], "expected at most"),
        (["demo", "--seed", "99999999999999"], "seed is 99999999999999, expected at most"),
        (["theory", "--seed", "-1"], "seed is -1, expected 0 to"),
        (["demo", "--seed", "-1"], "seed is -1"),
        (["demo", "--epochs", "-1"], "epochs is -1"),
        (["verify", "nowhere.features"], "nowhere.features is not a features folder: there is no such folder"),
        (["convert", "d.npy", "--seed", "-1"], "seed is -1, expected 0 to 4294967295"),
        (["doctor", "d.npy", "--seed", "-1"], "seed is -1, expected 0 to 4294967295"),
        (["doctor", "d.npy", "--seed", "4294967296"], "seed is 4294967296, expected 0 to 4294967295"),
        (["export", "x.features", "site", "--max-features", "0"], "--max-features is 0, expected at least 1"),
        (["export", "x.features", "site", "--max-samples", "-1"], "--max-samples is -1, expected at least 1"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments, message, nonneg, tmp_path):
    assert message in refused(nonneg(*arguments))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [[], ["dmeo"], ["train"], ["demo", "--data", "mnist"], ["train", "digits", "--epocs", "3"]]
)
def test_a_wrong_command_line_exits_with_2(arguments, nonneg):
    result = nonneg(*arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert result.stderr.strip()


def test_an_output_folder_that_cannot_be_written_is_said(nonneg, tmp_path):
    (tmp_path / "file").write_text("x")
    assert "file is a file" in refused(nonneg("demo", "--out", "file"))
    assert "cannot be written: not a directory" in refused(nonneg("demo", "--out", "file/demo"))
    assert "cannot be written" in refused(nonneg("demo", "--out", "/proc/demo"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_refused_run_costs_nothing_that_was_there(nonneg, tmp_path):
    assert nonneg("train", "digits", *SHORT).returncode == 0
    before = (tmp_path / "runs/digits/log.jsonl").read_text()
    message = refused(nonneg("train", "digits", *SHORT, "--overwrite", "--accelerator", "cuda"))
    assert "accelerator 'cuda' cannot be used" in message
    assert (tmp_path / "runs/digits/log.jsonl").read_text() == before
    assert (tmp_path / "runs/digits/model/model.safetensors").exists()


def test_version(nonneg):
    import nonneg as package

    assert nonneg("--version").stdout == f"nonneg {package.__version__}\n"


def test_output_that_cannot_be_written_is_said():
    command = [sys.executable, "-m", "nonneg", "--version"]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert "output cannot be written: no space left on device" in refused(Result(done.returncode, "", done.stderr))


def test_a_terminal_without_greek_gets_the_table_all_the_same(tmp_path):
    result = in_a_process("theory", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert result.returncode == 0, result.stderr
    assert "12 of 12 statements hold" in result.stdout and "E[spectral] = L(f)" in result.stdout


def test_demo_refuses_an_existing_folder_and_other_peoples_files(nonneg, tmp_path):
    old, theirs = tmp_path / "old", tmp_path / "theirs"
    for folder, marker in ((old, '{"made_by": "nonneg demo"}'), (theirs, "{}")):
        folder.mkdir()
        (folder / "results.json").write_text(marker)
    assert "pass --overwrite" in refused(nonneg("demo", "--out", "old"))
    assert "holds other files (results.json)" in refused(nonneg("demo", "--out", "theirs", "--overwrite"))
    (old / "thesis.tex").write_text("years of work")
    assert "holds other files (thesis.tex)" in refused(nonneg("demo", "--out", "old", "--overwrite"))
    assert (old / "thesis.tex").exists()
    assert (theirs / "results.json").read_text() == "{}"


def test_demo_needs_no_display_and_takes_any_path(tmp_path):
    out = "runs[bold]x"
    result = in_a_process("demo", "--epochs", "1", "--out", out, cwd=tmp_path, DISPLAY="", MPLBACKEND="TkAgg")
    assert result.returncode == 0, result.stderr
    assert "class consistency" in result.stdout and f"{out}/report.html" in result.stdout
    assert (tmp_path / out / "report.html").is_file()


def test_ctrl_c_during_training_leaves_what_was_written_readable(nonneg, tmp_path):
    command = [sys.executable, "-m", "nonneg", "demo", "--epochs", "500"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = tmp_path / "runs/demo/cl/log.jsonl"
    deadline = time.monotonic() + 120
    while not (log.exists() and log.read_text().count("\n") >= 2):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.search(r"^nonneg: stopped after \d+ of 2,500 steps.*runs/demo/cl", error, re.MULTILINE)
    assert "Traceback" not in error
    from nonneg.training import load_recipe, read_log

    assert load_recipe(str(log.parent / "config.toml")).epochs == 500
    assert len(read_log(log.parent)) >= 2
    assert nonneg("demo", "--epochs", "1", "--overwrite").returncode == 0


def test_ctrl_c_anywhere_else_says_stopped(tmp_path):
    command = [sys.executable, "-m", "nonneg", "theory"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert error.strip() == "nonneg: stopped"
    # `python -m` ends by the signal itself where the interrupt came within an exec(), as dataclasses do while they
    # are imported; a shell calls both 130
    assert process.returncode in (130, -signal.SIGINT)


@pytest.fixture
def failing_import(monkeypatch):
    """Importing what the commands need ends in this error."""

    def prepare(error: BaseException) -> None:
        class Failing:
            @staticmethod
            def find_spec(name: str, path: object = None, target: object = None) -> None:
                if name == "nonneg.cli._commands":
                    raise error

        monkeypatch.delitem(sys.modules, "nonneg.cli._commands", raising=False)
        monkeypatch.setattr(sys, "meta_path", [Failing, *sys.meta_path])

    return prepare


def test_ctrl_c_while_libraries_are_loaded_says_stopped(nonneg, failing_import):
    failing_import(KeyboardInterrupt())
    result = nonneg("theory")
    assert (result.returncode, result.stderr) == (130, "nonneg: stopped\n")


def test_nothing_slow_is_loaded_before_ctrl_c_is_caught():
    code = "import sys, nonneg.cli; assert not {'tyro', 'numpy', 'rich', 'dataclasses'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_file_that_the_system_refuses_is_named(nonneg, failing_import):
    failing_import(PermissionError(errno.EACCES, "Permission denied", "there/x.so"))
    assert refused(nonneg("theory")) == "nonneg: there/x.so cannot be used: permission denied"


def test_verify_says_whole_or_which_file_is_damaged(nonneg, tmp_path):
    folder = Features(np.eye(3, dtype=np.float32)).save(tmp_path / "x.features")
    assert "x.features is whole: Features(3 samples" in nonneg("verify", "x.features").stdout
    (tmp_path / "x.npy").touch()
    assert "x.npy is not a features folder: it is a file" in refused(nonneg("verify", "x.npy"))
    payload = next(folder.glob("codes-*.npy"))
    content = bytearray(payload.read_bytes())
    content[-1] ^= 1
    payload.write_bytes(content)
    assert payload.name in refused(nonneg("verify", "x.features"))


def test_theory_fails_if_a_statement_does(nonneg, monkeypatch):
    # The population's optimum made wrong by a thousandth: the residuals must show it.
    from nonneg.theory import Population

    exact = Population.optimum.func
    wrong = property(lambda self: exact(self) * 1.001)
    monkeypatch.setattr(Population, "optimum", wrong)
    result = nonneg("theory")
    assert result.returncode == 1
    assert "FAILS" in result.stdout
