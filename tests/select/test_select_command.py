"""`nonneg select`."""

import numpy as np
import pytest

from nonneg import Features
from nonneg.select import (
    Sepin,
    keep,
)


@pytest.fixture
def nonneg(monkeypatch, command, tmp_path, labelled):
    """Run a command where train.features and test.features lie: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    for name, features in zip(("train", "test"), labelled, strict=True):
        features.save(f"{name}.features")
        (tmp_path / name).mkdir()  # a run, with its features beside it

    return command


def test_the_command_writes_features_and_their_numbers(nonneg, tmp_path):
    code, said, _ = nonneg("select", "train.features", "--keep", "4", "--by", "mutual-information")
    assert code == 0 and said == "Selected: train-4.features, train-4.kept.npy\n"
    assert np.load(tmp_path / "train-4.kept.npy").tolist() == [0, 1, 2, 3]
    kept = Features.load(tmp_path / "train-4.features")
    assert kept.shape == (200, 4) and kept.names == {0: "zero"} and kept.id(5) == "s5"
    assert kept.provenance["selected"]["kept"] == [0, 1, 2, 3]
    # The same ones of the test samples, by the numbers that were written; and a run's name will do.
    code, said, _ = nonneg("select", "test", "--indices", "train-4.kept.npy")
    assert code == 0 and Features.load(tmp_path / "test-4.features").shape == (120, 4)


def test_the_command_does_not_overwrite_unasked(nonneg, tmp_path):
    assert nonneg("select", "train.features", "--keep", "4", "--out", "some.features")[0] == 0
    assert nonneg("select", "train.features", "--keep", "4", "--out", "some.features", "--overwrite")[0] == 0
    assert (tmp_path / "some.kept.npy").is_file()
    code, _, said = nonneg("select", "train.features", "--keep", "3", "--out", "some.features")
    assert code == 2 and "some.features exists already" in said
    (tmp_path / "other.kept.npy").mkdir()
    code, _, said = nonneg("select", "train.features", "--keep", "3", "--out", "other.features", "--overwrite")
    assert code == 2 and "other.kept.npy exists already" in said and not (tmp_path / "other.features").exists()


def test_sepin_chooses_by_a_second_view(nonneg, labelled, tmp_path):
    code, _, said = nonneg("select", "train", "--keep", "2", "--by", "sepin", "--views", "train.features")
    assert code == 0, said
    expected = keep(labelled[0], Sepin(2), labelled[0]).provenance["selected"]["kept"]
    assert np.load(tmp_path / "train-2.kept.npy").tolist() == expected


def test_the_command_sweeps(nonneg, tmp_path):
    arguments = (
        "select",
        "train.features",
        "--test",
        "test.features",
        "--keep",
        "2",
        "--keep",
        "4",
        "--by",
        "variance",
    )
    code, said, _ = nonneg(*arguments, "--out", "sweep.png")
    assert code == 0 and "| 4 | variance |" in said and said.endswith("Drawn: sweep.png\n")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    code, _, said = nonneg(*arguments, "--out", "sweep.png")
    assert code == 2 and "sweep.png exists already" in said
    assert nonneg(*arguments, "--out", "sweep.png", "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "neither --keep nor --indices given"),
        (("--keep", "17"), "n_features_to_select is 17, expected 1 to 16"),
        (("--keep", "0"), "n_features_to_select is 0"),
        (("--keep", "2", "--by", "random", "--seed", "-1"), "seed is -1, expected 0 to 4294967295"),
        (("--test", "test", "--seed", "-1"), "seed is -1, expected 0 to 4294967295"),
        (("--keep", "2", "--keep", "3"), "--keep is given 2 times, expected once, or --test to compare"),
        (("--keep", "2", "--indices", "a.npy"), "--keep and --indices given, expected one of them"),
        (("--indices", "a.npy"), "a.npy cannot be read: no such file"),
        (("--indices", "test.features/meta.json"), "meta.json is not a plain NumPy array"),
        (("--indices", "a.npy", "--by", "variance"), "--by is given, expected only without --indices"),
        (("--keep", "2", "--by", "sepin"), "--views is missing, expected features of a second view"),
        (("--keep", "2", "--views", "test"), "--views is test, expected features of a second view with --by sepin"),
        (("--keep", "2", "--by", "sepin", "--views", "test"), "120 of them in common, expected the same ids"),
        (("--test", "nowhere"), "nowhere does not exist, expected a file or a folder"),
        (("--test", "test", "--out", "sweep.doc"), "sweep.doc is not a picture by its ending"),
        (("--test", "test", "--indices", "a.npy"), "--indices is given, expected only without --test"),
        (("--test", "test", "--by", "sepin"), "a second view of the same samples is missing"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(nonneg, arguments, message, tmp_path):
    before = sorted(tmp_path.iterdir())
    code, _, said = nonneg("select", "train.features", *arguments)
    assert code == 2 and said.startswith("nonneg: ") and said.count("\n") == 1 and message in said
    assert sorted(tmp_path.iterdir()) == before
