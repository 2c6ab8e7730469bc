from pathlib import Path

import numpy as np
import pytest

from nonneg import Features, InputError
from nonneg.features import find_features


def saved(path, run=None):
    return Features(np.eye(2, dtype=np.float32), provenance={} if run is None else {"run": run}).save(path)


def test_features_are_found_by_their_own_name_and_next_to_a_run(tmp_path):
    folder = saved(tmp_path / "x.features")
    assert find_features(folder) == find_features(tmp_path / "x") == folder


def test_features_written_by_embed_are_found_and_those_of_another_run_are_not(tmp_path):
    embedded = saved(tmp_path / "x-photos-test.features", run="x")
    saved(tmp_path / "x-2.features", run="x-2")
    assert find_features(tmp_path / "x") == embedded
    saved(tmp_path / "x-photos-train.features", run="x")
    with pytest.raises(InputError, match=r"several features .*x-photos-test.*x-photos-train"):
        find_features(str(tmp_path / "x"))


def test_selected_and_damaged_features_are_not_considered(tmp_path):
    embedded = saved(tmp_path / "x-photos-test.features", run="x")
    Features.load(embedded).with_columns([0], {"selected": "one"}).save(tmp_path / "x-1.features")
    (saved(tmp_path / "x-2.features", run="x") / "meta.json").write_text('{"format": "nonneg.features"')
    assert find_features(tmp_path / "x") == embedded


def test_a_file_of_vectors_is_no_run_whatever_features_are_called(tmp_path):
    (tmp_path / "v.npy").write_bytes(b"vectors")
    saved(tmp_path / "v.npy-5.features")
    with pytest.raises(InputError, match=r"v\.npy is a file"):
        find_features(tmp_path / "v.npy")


def test_features_of_a_renamed_run_are_found(tmp_path):
    embedded = saved(tmp_path / "y-photos-test.features", run="x")
    assert find_features(tmp_path / "y") == embedded


def test_features_are_found_from_inside_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(saved(tmp_path / "x.features"))
    assert find_features(".") == Path()
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path / "x")
    assert find_features(".") == tmp_path / "x.features"


def test_a_path_without_features_is_rejected(tmp_path):
    with pytest.raises(InputError, match="x does not exist"):
        find_features(tmp_path / "x")
    (tmp_path / "x").mkdir()
    with pytest.raises(InputError, match="x is neither features nor a run"):
        find_features(tmp_path / "x")


@pytest.mark.parametrize("path", ["/", "n" * 300, "a\0b"])
def test_a_path_that_cannot_be_a_run_is_an_error(path):
    with pytest.raises(InputError, match=path[:200]):
        find_features(path)
