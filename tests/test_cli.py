"""The command line from a user's point of view."""

import errno
import inspect
import itertools
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
from nonneg import Features, InputError, studies
from nonneg.cli._commands import GROUPS, demo, doctor, embed, explore, measure
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


@pytest.mark.parametrize(
    ("arguments", "listed"),
    [(["--help"], ("demo", "train", "theory", "verify")), (["train", "--help"], ("images", "cifar10-supervised"))],
)
def test_help_does_not_import_torch(arguments, listed):
    code = (
        f"import sys; sys.argv = ['nonneg', *{arguments}]\n"
        "from nonneg.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for name in listed:
        assert f"  {name} " in result.stdout


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
    for arguments in (["--version"], ["--version", "convert"]):
        assert nonneg(*arguments).stdout == f"nonneg {package.__version__}\n"


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
HELP = [(name,) for name in COMMANDS] + [("train", name) for name in recipes()]
# What tyro writes by itself, and numbers of 17 digits.
NOISE = ("{None}", "None}", "default: None", "default: False", "default: True", "(default: )", "''", "STR", "FLOAT")


def test_help_lists_every_command_once_in_groups(nonneg):
    shown = nonneg("--help").stdout
    listed = re.findall(r"^  ([a-z]+)  ", shown, re.MULTILINE)
    assert listed == COMMANDS and len(set(listed)) == len(listed)
    for group in GROUPS:
        assert f"\n\n{group}\n" in shown


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_help_has_an_example_with_its_own_options_and_no_noise(nonneg, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "88")
    shown = nonneg(*words, "--help").stdout
    assert shown.startswith(f"usage: nonneg {' '.join(words)} ") and "[-h]" not in shown
    example = re.search(rf"For example:\n +nonneg {' '.join(words)} (.*)", shown)[1]
    text = shown if words != ("train",) else shown + nonneg("train", "images", "--help").stdout
    for option in re.findall(r"--[a-z-]+", example):
        assert re.search(rf"--(modality\.)?{option[2:]} ", text.replace(example, "")), option
    for noise in NOISE:
        assert noise not in shown
    assert not re.search(r"\d\.\d{8}", shown)
    assert not ragged(shown)
    assert all(len(line) <= 88 for line in shown.splitlines() if line[:1].isalpha())


def ragged(shown: str) -> list[str]:
    """Return the lines of a box that end although the next line's first word would have fitted."""
    rows = [line[2:-2] for line in shown.splitlines() if line.startswith("│")]
    text = [(row, after) for row, after in itertools.pairwise(rows) if not row.startswith("-")]
    more = [(row, after) for row, after in text if row.startswith("    ") and after.startswith("    ")]
    return [row for row, after in more if len(row.rstrip()) + 1 + len(after.split()[0]) < len(row)]


@pytest.mark.parametrize("name", recipes())
def test_the_help_of_a_recipe_begins_with_what_it_is_for_and_says_whether_it_needs_data(nonneg, name):
    first = re.search(rf"^  {name} +(.+)$", nonneg("train", "--help").stdout, re.MULTILINE)[1]
    shown = nonneg("train", name, "--help").stdout
    assert shown.split("\n\n")[1].startswith(first)
    assert f"nonneg train {name} " in shown
    config = load_recipe(name)
    try:
        config.modality.open(config.data, progress=False)
        expected = f"(default: {config.data})"
    except InputError:
        expected = "(required)"
    described = re.search(r"--data DATA(.*?)--seed", shown, re.DOTALL)[1].replace("│", " ").split()
    assert " ".join(described).endswith(expected)


def test_a_recipe_without_bundled_data_asks_for_it(nonneg, tmp_path):
    assert "--data" in rejection(nonneg("train", "cifar10", *SHORT))
    (tmp_path / "images").mkdir()
    assert "--data is missing" not in rejection(nonneg("train", "images"))  # it is read, and is empty


def test_the_help_of_a_toml_file_names_it(nonneg, tmp_path):
    (tmp_path / "mine.toml").write_text("# My photos. Taken at night.\nepochs = 7\n")
    shown = nonneg("train", "mine.toml", "--help").stdout
    assert "My photos. Taken at night." in shown and "nonneg train mine.toml --" in shown and "(default: 7)" in shown


@pytest.mark.parametrize("name", ["graph", "graphs"])
def test_what_the_data_decides_is_no_option(nonneg, name):
    assert "--modality.attribute" not in nonneg("train", name, "--help").stdout
    assert "attributes" in rejection(nonneg("train", name, "--attributes", "5"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("convert x.npy --max-active none", "--max-active is 'none', expected a whole number or None"),
        ("convert x.npy --n-components 3.5", "--n-components is '3.5', expected a whole number"),
        ("theory --seed=abc", "--seed is 'abc', expected a whole number"),
        ("search x --k -5x", "--k is '-5x', expected a whole number"),
        ("train digits --batch_size many", "--batch-size is 'many', expected a whole number"),
        ("train digits --views.noise loud", "views.noise is 'loud', expected a number"),
        ("train digits --mean 1 a", "mean is '1 a', expected numbers"),
        ("select x --keep many", "--keep is 'many', expected a whole number"),
        ("index x --engine foo", "--engine is 'foo', expected exact, seismic or milvus"),
        ("reproduce mnist", "RECIPE is 'mnist', expected digits, cifar10, cifar100 or imagenet100"),
        ("theory --seed", "--seed is given without a value, expected a whole number"),
        ("measure x --labels", "--labels is given without a value, expected FILE"),
        ("export x", "SITE is missing: nonneg export FEATURES_OR_RUN SITE"),
        ("embed", "RUN and DATA are missing: nonneg embed RUN DATA"),
        ("train", "RECIPE is missing: nonneg train RECIPE"),
        ("train --epochs 3", "RECIPE is missing: nonneg train RECIPE"),
        ("theory 5", "'5' is given"),
        ("theory -x", "-x is not an option"),
        ("demo --overwrite=yes", "'yes' is given"),
        ("train digits --epochs 0", "epochs is 0"),
        ("train digits --views.noise -1", "noise is -1"),
    ],
)
def test_a_bad_argument_is_named_with_what_was_expected(nonneg, line, expected):
    result = nonneg(*line.split())
    assert rejection(result).startswith(f"nonneg: {expected}") or expected in rejection(result)
    assert result.stderr.count("\n") == 1 and not result.stdout


def test_help_says_how_many_features_a_command_takes(nonneg):
    for name, number in (("measure", "one or more"), ("match", "two or more"), ("explore", "one or two")):
        assert f"({number})" in nonneg(name, "--help").stdout


def test_a_script_that_completes_commands_is_printed_as_it_is(nonneg):
    assert "usage:" not in nonneg("theory", "--tyro-print-completion", "bash").stdout.splitlines()[0]


def test_export_says_how_to_open_what_it_wrote(nonneg, tmp_path):
    Features(np.eye(3, dtype=np.float32)).save(tmp_path / "small.features")
    assert f"{Path('site/index.html')}, " in nonneg("export", "small.features", "site").stdout
    pixels = np.random.default_rng(0).integers(0, 256, (2, 1900, 1900, 3), np.uint8)
    Features(np.eye(2, dtype=np.float32), pixels=pixels).save(tmp_path / "large.features")
    shown = nonneg("export", "large.features", "large").stdout
    size = sum(path.stat().st_size for path in (tmp_path / "large").rglob("*") if path.is_file())
    assert f"({size / 1e6:.0f} MB)" in shown and "python -m http.server -d large" in shown


def test_explore_names_the_package_that_a_sentence_model_needs(nonneg, tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.eye(3, dtype=np.float32))
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # as if it were not installed
    message = rejection(nonneg("explore", "x.npy", "--sentence-model", "m", "--no-browser"))
    assert "--sentence-model" in message and "pip install 'nonneg[sentence]'" in message


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["serach", "x.features"], "search"),
        (["search", "--liek", "3", "x.features"], "--like"),
        (["convert", "x.npy", "--max_activ", "3"], "--max-active"),
        (["train", "digits", "--epoch", "3"], "--epochs"),
        (["train", "imags"], "images"),
        (["train", "digits", "--rectify", "rel"], "relu"),
        (["index", "x.features", "--engine", "seimic"], "seismic"),
        (["measure", "x.features", "--parts", "probe", "structur"], "structure"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_one_meant(nonneg, tmp_path, arguments, meant):
    (tmp_path / "x.features").mkdir()
    assert f"did you mean {meant}?" in rejection(nonneg(*arguments))


def test_the_help_names_all_arguments_wherever_it_is_asked_for(nonneg):
    whole = nonneg("export", "--help")
    assert whole.returncode == 0 and "FEATURES_OR_RUN SITE" in whole.stdout
    assert nonneg("export", "x.features", "site", "-h").stdout == whole.stdout


def test_a_command_must_be_given_and_an_unlike_one_gets_no_suggestion(nonneg):
    assert "--help" in rejection(nonneg())
    assert "did you mean" not in rejection(nonneg("xyzzy"))
