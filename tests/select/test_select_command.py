"""The command `nonneg select`."""

from pathlib import Path

import numpy as np
import pytest

from nonneg import Features
from nonneg.select import (
    Sepin,
    keep,
)


@pytest.fixture
def nonneg(monkeypatch, command, tmp_path, labelled):
    """Run a command in a folder with train.features and test.features: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    for name, features in zip(("train", "test"), labelled, strict=True):
        features.save(f"{name}.features")
        (tmp_path / name).mkdir()  # a run with its features beside it
    np.save("one.npy", 1)
    np.savez("some.npz", kept=[1, 2])
    Path("others").mkdir()
    for other in ("others/note.txt", "taken.kept.npy"):
        Path(other).write_text("not written by nonneg")

    return command


def test_the_command_writes_features_and_their_original_numbers(nonneg, tmp_path):
    code, output, _ = nonneg("select", "train.features", "--keep", "4", "--by", "mutual-information")
    assert code == 0 and output == "Selected: train-4.features, train-4.kept.npy\n"
    assert np.load(tmp_path / "train-4.kept.npy").tolist() == [0, 1, 2, 3]
    kept = Features.load(tmp_path / "train-4.features")
    assert kept.shape == (200, 4) and kept.names == {0: "zero"} and kept.id(5) == "s5"
    assert kept.provenance["selected"]["kept"] == [0, 1, 2, 3]
    # The same features of the test samples, by the numbers that were written, and with a run's name.
    code, output, _ = nonneg("select", "test", "--indices", "train-4.kept.npy")
    assert code == 0 and Features.load(tmp_path / "test-4.features").shape == (120, 4)


def test_the_command_overwrites_only_with_the_flag(nonneg, tmp_path):
    assert nonneg("select", "train.features", "--keep", "4", "--out", "some.features")[0] == 0
    assert nonneg("select", "train.features", "--keep", "4", "--out", "some.features", "--overwrite")[0] == 0
    assert (tmp_path / "some.kept.npy").is_file()
    code, _, output = nonneg("select", "train.features", "--keep", "3", "--out", "some.features")
    assert code == 2 and "some.features holds features already" in output
    (tmp_path / "other.kept.npy").mkdir()
    code, _, output = nonneg("select", "train.features", "--keep", "3", "--out", "other.features", "--overwrite")
    assert code == 2 and "other.kept.npy is a folder" in output and not (tmp_path / "other.features").exists()


def test_sepin_uses_a_second_view(nonneg, labelled, tmp_path):
    code, _, output = nonneg("select", "train", "--keep", "2", "--by", "sepin", "--views", "train.features")
    assert code == 0, output
    expected = keep(labelled[0], Sepin(2), labelled[0]).provenance["selected"]["kept"]
    assert np.load(tmp_path / "train-2.kept.npy").tolist() == expected


def test_the_command_compares_selectors(nonneg, tmp_path):
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
    code, output, _ = nonneg(*arguments, "--out", "sweep.png")
    assert code == 0 and "| 4 | variance |" in output and output.endswith("Drawn: sweep.png\n")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    code, _, output = nonneg(*arguments, "--out", "sweep.png")
    assert code == 2 and "sweep.png exists already" in output
    assert nonneg(*arguments, "--out", "sweep.png", "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "neither --keep nor --indices"),
        (("--keep", "17"), "--keep is 17"),
        (("--keep", "0"), "--keep is 0"),
        (("--keep", "2", "--by", "random", "--seed", "-1"), "seed is -1"),
        (("--test", "test", "--seed", "-1"), "seed is -1"),
        (("--keep", "2", "--keep", "3"), "--keep"),
        (("--keep", "2", "--indices", "a.npy"), "both --keep and --indices"),
        (("--indices", "a.npy"), "a.npy"),
        (("--indices", "test.features/meta.json"), "meta.json"),
        (("--indices", "one.npy"), "indices are int64 of shape ()"),
        (("--indices", "some.npz"), "some.npz"),
        (("--keep", "2", "--out", "others", "--overwrite"), "others holds other files (note.txt)"),
        (("--keep", "2", "--out", "others/note.txt", "--overwrite"), "others/note.txt is a file"),
        (("--keep", "2", "--out", "taken.features", "--overwrite"), "taken.kept.npy"),
        (("--indices", "a.npy", "--by", "variance"), "--by"),
        (("--keep", "2", "--by", "sepin"), "--views is missing"),
        (("--keep", "2", "--views", "test"), "--views is test"),
        (("--keep", "2", "--by", "sepin", "--views", "test"), "120 ids in common"),
        (("--test", "nowhere"), "nowhere"),
        (("--test", "test", "--out", "sweep.doc"), "sweep.doc"),
        (("--test", "test", "--indices", "a.npy"), "--indices"),
        (("--test", "test", "--by", "sepin"), "views is None"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(nonneg, arguments, message, tmp_path):
    before = sorted(tmp_path.iterdir())
    code, _, output = nonneg("select", "train.features", *arguments)
    assert code == 2 and output.startswith("nonneg: ") and output.count("\n") == 1 and message in output
    assert sorted(tmp_path.iterdir()) == before


def test_the_features_of_the_current_folder_are_selected_and_written_beside_it(nonneg, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path / "train.features")
    code, _, error = nonneg("select", ".", "--keep", "4")
    assert code == 0, error
    assert Features.load(tmp_path / "train-4.features").shape == (200, 4) and (tmp_path / "train-4.kept.npy").is_file()


def test_a_mask_of_features_names_the_folder_by_their_number(nonneg, tmp_path):
    np.save("mask.npy", np.arange(16) < 3)
    assert nonneg("select", "train.features", "--indices", "mask.npy")[0] == 0
    assert Features.load(tmp_path / "train-3.features").shape == (200, 3)
