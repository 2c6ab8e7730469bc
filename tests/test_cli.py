"""The command line from a user's point of view."""

import errno
import inspect
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

import nonneg as package
from nonneg import Features, studies
from nonneg.cli._commands import GROUPS, demo, doctor, embed, explore, measure, train
from nonneg.models import embed_data
from nonneg.training import load_recipe, read_log, recipes

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


def run_in_process(*arguments: str, cwd: Path, **environment: str) -> Result:
    command = [sys.executable, "-m", "nonneg", *arguments]
    env = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=cwd, env=env)
    return Result(done.returncode, done.stdout, done.stderr)


def rejection(result: Result) -> str:
    """Return the one sentence on standard error; the exit code is 2 and there is no traceback."""
    assert result.returncode == 2, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("nonneg: ")]
    assert len(lines) == 1
    return lines[0]


def test_the_help_of_train_lists_all_recipes():
    named = re.search(r"recipe: (.*), or the path", train.__doc__, re.DOTALL)[1].replace(",", " ").split()
    assert sorted(named) == sorted(recipes())


def test_help_does_not_import_torch():
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
    assert "--overwrite" in rejection(nonneg("train", "digits", *SHORT))
    assert nonneg("train", "digits", *SHORT, "--overwrite").returncode == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_rejected_run_leaves_the_existing_run_unchanged(nonneg, tmp_path):
    assert nonneg("train", "digits", *SHORT).returncode == 0
    before = (tmp_path / "runs/digits/log.jsonl").read_text()
    message = rejection(nonneg("train", "digits", *SHORT, "--overwrite", "--accelerator", "cuda"))
    assert "'cuda'" in message
    assert (tmp_path / "runs/digits/log.jsonl").read_text() == before
    assert (tmp_path / "runs/digits/model/model.safetensors").exists()


def test_version_is_that_of_the_package(nonneg):
    assert nonneg("--version").stdout == f"nonneg {package.__version__}\n"


def test_a_full_disk_is_reported():
    command = [sys.executable, "-m", "nonneg", "--version"]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert "no space left on device" in rejection(Result(done.returncode, "", done.stderr))


@pytest.mark.parametrize(("arguments", "code"), [("--version", 0), ("measure nowhere", 2)])
def test_closed_standard_output_is_not_an_error(arguments, code):
    done = subprocess.run(f"{sys.executable} -m nonneg {arguments} >&-", shell=True, capture_output=True, text=True)
    assert done.returncode == code and "Traceback" not in done.stderr


def test_a_feature_number_of_thousands_of_digits_is_an_unknown_feature(nonneg, tmp_path):
    Features(np.eye(3, dtype=np.float32)).save(tmp_path / "a.features")
    assert "feature" in rejection(nonneg("search", "a.features", "--feature", "1", "--without", "9" * 5000))


@pytest.mark.slow
def test_theory_prints_its_table_on_a_terminal_without_greek_letters(tmp_path):
    result = run_in_process("theory", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert result.returncode == 0, result.stderr
    assert "13 of 13 statements hold" in result.stdout and "E[spectral] = L(f)" in result.stdout


def test_demo_does_not_overwrite_an_existing_demo_or_other_files(nonneg, tmp_path):
    old, theirs = tmp_path / "old", tmp_path / "theirs"
    for folder, marker in ((old, '{"made_by": "nonneg demo"}'), (theirs, "{}")):
        folder.mkdir()
        (folder / "results.json").write_text(marker)
    assert "--overwrite" in rejection(nonneg("demo", "--out", "old"))
    assert "results.json" in rejection(nonneg("demo", "--out", "theirs", "--overwrite"))
    (old / "thesis.tex").write_text("years of work")
    assert "thesis.tex" in rejection(nonneg("demo", "--out", "old", "--overwrite"))
    assert (old / "thesis.tex").exists()
    assert (theirs / "results.json").read_text() == "{}"


@pytest.mark.slow  # a whole demo; the others are run in tests/studies
def test_demo_needs_no_display_and_accepts_any_path(tmp_path):
    out = "runs[bold]x"
    result = run_in_process("demo", "--epochs", "1", "--out", out, cwd=tmp_path, DISPLAY="", MPLBACKEND="TkAgg")
    assert result.returncode == 0, result.stderr
    assert "class consistency" in result.stdout and f"{out}/report.html" in result.stdout
    assert (tmp_path / out / "report.html").is_file()


def test_ctrl_c_during_training_leaves_a_readable_run(nonneg, tmp_path):
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
    assert re.search(r"^nonneg: .*\d+ of 2,500 steps.*runs/demo/cl", error, re.MULTILINE)
    assert "Traceback" not in error
    assert load_recipe(str(log.parent / "config.toml")).epochs == 500
    assert len(read_log(log.parent)) >= 2
    assert nonneg("demo", "--epochs", "1", "--overwrite").returncode == 0


def test_ctrl_c_elsewhere_says_stopped(tmp_path):
    command = [sys.executable, "-m", "nonneg", "theory"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert error.strip() == "nonneg: stopped"
    # `python -m` is ended by the signal itself if it arrives within an exec(), which dataclasses use during import; a
    # shell reports 130 for both
    assert process.returncode in (130, -signal.SIGINT)


@pytest.fixture
def failing_import(monkeypatch):
    """Make the import of the commands raise an error."""

    def prepare(error: BaseException) -> None:
        class Failing:
            @staticmethod
            def find_spec(name: str, path: object = None, target: object = None) -> None:
                if name == "nonneg.cli._commands":
                    raise error

        monkeypatch.delitem(sys.modules, "nonneg.cli._commands", raising=False)
        monkeypatch.setattr(sys, "meta_path", [Failing, *sys.meta_path])

    return prepare


def test_ctrl_c_while_libraries_load_says_stopped(nonneg, failing_import):
    failing_import(KeyboardInterrupt())
    result = nonneg("theory")
    assert (result.returncode, result.stderr) == (130, "nonneg: stopped\n")


def test_nothing_slow_is_imported_before_ctrl_c_is_handled():
    code = "import sys, nonneg.cli; assert not {'tyro', 'numpy', 'rich', 'dataclasses'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_file_without_permission_is_named(nonneg, failing_import):
    failing_import(PermissionError(errno.EACCES, "Permission denied", "there/x.so"))
    message = rejection(nonneg("theory"))
    assert "there/x.so" in message and "permission denied" in message


def test_verify_takes_indexes_conversions_and_estimators(nonneg, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(60, 5)).astype(np.float32))
    (tmp_path / "y.txt").write_text("cat\ndog\n" * 30)
    small = ["--n-components", "8", "--max-active", "2", "--max-iter", "3"]
    made = nonneg("convert", "x.npy", "--out", "run", "--labels", "y.txt", "--classify", *small)
    assert made.returncode == 0, made.stderr
    assert nonneg("index", "run.features").returncode == 0
    assert "run is intact: NonNegativeEmbedding, NonNegativeClassifier" in nonneg("verify", "run").stdout
    assert "run/classifier is intact: NonNegativeClassifier" in nonneg("verify", "run/classifier").stdout
    assert "run/model is intact: NonNegativeEmbedding" in nonneg("verify", "run/model").stdout
    assert "run.index is intact: Index(60 rows" in nonneg("verify", "run.index").stdout
    weights = tmp_path / "run/classifier/classifier.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    assert "classifier.safetensors was changed" in rejection(nonneg("verify", "run"))
    assert nonneg("train", "digits", "--epochs", "1", "--warmup-epochs", "0", "--out", "trained").returncode == 0
    assert "trained is intact: images, encoder convnet_8" in nonneg("verify", "trained").stdout
    weights = tmp_path / "trained/model/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert "model.safetensors is damaged" in rejection(nonneg("verify", "trained"))


def test_verify_reports_an_intact_folder_or_the_damaged_file(nonneg, tmp_path):
    folder = Features(np.eye(3, dtype=np.float32)).save(tmp_path / "x.features")
    assert "x.features is intact: Features(3 samples" in nonneg("verify", "x.features").stdout
    (tmp_path / "x.npy").touch()
    assert "x.npy" in rejection(nonneg("verify", "x.npy"))
    payload = next(folder.glob("codes-*.npy"))
    content = bytearray(payload.read_bytes())
    content[-1] ^= 1
    payload.write_bytes(content)
    assert payload.name in rejection(nonneg("verify", "x.features"))


@pytest.mark.slow
def test_theory_exits_with_1_if_a_statement_fails(nonneg, monkeypatch):
    exact = torch.linalg.qr

    def not_orthogonal(matrix):
        q, r = exact(matrix)
        return 1.001 * q, r

    monkeypatch.setattr(torch.linalg, "qr", not_orthogonal)  # "rotations" that change lengths by a thousandth
    result = nonneg("theory")
    assert result.returncode == 1
    assert "FAILS" in result.stdout


def test_an_id_that_is_not_valid_unicode_is_rejected_in_one_sentence(nonneg, tmp_path):
    Features(np.eye(3, dtype=np.float32), ids=["a", "b", "c"]).save(tmp_path / "x.features")
    not_utf8 = os.fsdecode(b"\xff")
    for option in ("--like", "--minus", "--feature", "--without", "--label"):
        arguments = ["--like", "a", option, not_utf8]
        assert re.search(r"\\xff|\\udcff", rejection(nonneg("search", "x.features", *arguments)))


@pytest.mark.parametrize(
    ("command", "function"),
    [
        (demo, studies.demo),
        (doctor, studies.diagnose),
        (measure, package.measure),
        (embed, embed_data),
        (explore, package.explore),
    ],
)
def test_options_have_the_defaults_of_the_python_function(command, function):
    options, parameters = inspect.signature(command).parameters, inspect.signature(function).parameters
    shared = [name for name in options if name in parameters and options[name].default not in (None, ())]
    assert len(shared) >= 2
    for name in shared:
        assert str(options[name].default) == str(parameters[name].default), name


def test_options_of_convert_have_the_defaults_of_the_estimator(nonneg):
    shown = " ".join(nonneg("convert", "--help").stdout.replace("│", " ").split())
    for name, parameter in inspect.signature(package.NonNegativeEmbedding).parameters.items():
        if name not in ("random_state", "verbose") and parameter.default not in (None, False):
            option = name.replace("_", "-")
            pattern = rf"--{option} (?:(?! --).)*\(default: {parameter.default}\)"
            assert re.search(pattern, shown), name


COMMANDS = [name for commands in GROUPS.values() for name in commands]


def test_help_lists_every_command_once_in_groups(nonneg):
    shown = nonneg("--help").stdout
    listed = re.findall(r"^  ([a-z]+)  ", shown, re.MULTILINE)
    assert listed == COMMANDS and len(set(listed)) == len(listed)
    for group in GROUPS:
        assert f"\n\n{group}\n" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_an_example_with_its_own_options_and_no_noise(nonneg, name):
    shown = nonneg(name, "--help").stdout
    example = re.search(rf"For example:\n +nonneg {name} (.*)", shown)[1]
    text = shown if name != "train" else shown + nonneg("train", "images", "--help").stdout
    for option in re.findall(r"--[a-z-]+", example):
        assert f"{option} " in text.replace(example, "")
    for noise in ("{None}", "default: None", "default: False", "default: True", "[STR"):
        assert noise not in shown


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["serach", "x.features"], "search"),
        (["search", "--liek", "3", "x.features"], "--like"),
        (["convert", "x.npy", "--max_activ", "3"], "--max-active"),
        (["train", "digits", "--epoch", "3"], "--epochs"),
    ],
)
def test_a_mistyped_command_or_option_is_answered_with_the_one_meant(nonneg, arguments, meant):
    assert f"did you mean {meant}?" in rejection(nonneg(*arguments))


def test_a_command_must_be_given_and_an_unlike_one_gets_no_suggestion(nonneg):
    assert "--help" in rejection(nonneg())
    assert "did you mean" not in rejection(nonneg("xyzzy"))
