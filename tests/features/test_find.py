from pathlib import Path

import numpy as np
import pytest

from nonneg import Features, InputError
from nonneg.features import find_features
from nonneg.select import ExpectedActivation, keep


def saved(path, run=None):
    return Features(np.eye(2, dtype=np.float32), provenance={} if run is None else {"run": run}).save(path)


def test_features_are_found_by_their_own_name_and_beside_a_run(tmp_path):
    folder = saved(tmp_path / "x.features")
    assert find_features(folder) == find_features(tmp_path / "x") == folder


def test_where_embed_writes_them_they_are_found_and_those_of_another_run_are_not(tmp_path):
    embedded = saved(tmp_path / "x-photos-test.features", run="x")
    saved(tmp_path / "x-2.features", run="x-2")
    assert find_features(tmp_path / "x") == embedded
    saved(tmp_path / "x-photos-train.features", run="x")
    with pytest.raises(InputError, match=r"has several features beside it, expected one of them .*x-photos-test"):
        find_features(str(tmp_path / "x"))


def test_a_selection_of_features_and_damaged_ones_are_not_a_runs_own(tmp_path):
    embedded = saved(tmp_path / "x-photos-test.features", run="x")
    keep(Features.load(embedded), ExpectedActivation(1)).save(tmp_path / "x-1.features")
    (saved(tmp_path / "x-2.features", run="x") / "meta.json").write_text('{"format": "nonneg.features"')
    assert find_features(tmp_path / "x") == embedded


def test_a_run_that_was_renamed_with_its_features_keeps_them(tmp_path):
    embedded = saved(tmp_path / "y-photos-test.features", run="x")
    assert find_features(tmp_path / "y") == embedded


def test_a_folder_is_found_from_inside(tmp_path, monkeypatch):
    monkeypatch.chdir(saved(tmp_path / "x.features"))
    assert find_features(".") == Path()
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path / "x")
    assert find_features(".") == tmp_path / "x.features"


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="x does not exist"):
        find_features(tmp_path / "x")
    (tmp_path / "x").mkdir()
    with pytest.raises(InputError, match="x is neither features nor a run with features beside it"):
        find_features(tmp_path / "x")
