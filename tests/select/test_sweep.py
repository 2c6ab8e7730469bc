"""The sweep: its figures are those of the selected features, and test samples choose nothing."""

import json

import numpy as np
import pytest

from nonneg import Features, InputError, metrics
from nonneg.evaluate import linear_probe
from nonneg.select import (
    SELECTORS,
    ExpectedActivation,
    MutualInformation,
    keep,
    sweep,
)


def test_a_point_has_the_probe_accuracy_and_precision_of_the_selected_features(labelled):
    train, test = labelled
    found = sweep(train, test, keep=[2], selectors=["mutual-information", "expected-activation"], progress=False)
    assert [(point.by, point.keep) for point in found.points] == [
        ("mutual-information", 2),
        ("expected-activation", 2),
        ("all features", 16),
    ]
    for point, selector in zip(found.points, (MutualInformation(2), ExpectedActivation(2)), strict=False):
        kept = keep(train, selector)
        columns = kept.provenance["selected"]["kept"]
        part = keep(test, columns)
        assert point.probe == linear_probe(kept, part).accuracy
        assert point.precision == pytest.approx(metrics.precision_at_k(test.codes[:, columns], test.labels))
    # The large feature is the most active one and says nothing about the class.
    assert found.points[0].probe > found.points[1].probe + 0.1


def test_selectors_do_not_use_test_samples(labelled):
    train, test = labelled
    rolled = Features(np.roll(test.codes, 3, axis=1), labels=test.labels)
    found = sweep(train, rolled, keep=[4], selectors={"best": MutualInformation()}, progress=False).points[0]
    expected = linear_probe(keep(train, [0, 1, 2, 3]), keep(rolled, [0, 1, 2, 3]))
    assert found.by == "best" and found.probe == expected.accuracy


def test_bytes_are_those_of_the_smaller_storage_format(labelled):
    train, test = labelled
    one, _, _ = (
        point.bytes
        for point in sweep(train, test, keep=[1, 4], selectors=["expected-activation"], progress=False).points
    )
    assert one == 4  # the large feature is dense
    whole = sweep(train, test, keep=[], selectors=[], progress=False).points
    assert len(whole) == 1 and whole[0].bytes == pytest.approx(8 * (test.codes > 0).sum() / 120)


def test_all_selectors_that_differ_are_compared_by_default(labelled):
    train, test = labelled
    found = sweep(train, test, progress=False)
    assert {point.keep for point in found.points} == {1, 2, 4, 8, 16}
    names = {point.by for point in found.points}
    chosen = {"expected-activation", "variance", "reconstruction", "mutual-information", "elimination", "random"}
    assert names == {*chosen, "all features"}
    signed = Features(train.codes - 0.1, labels=train.labels)
    names = {point.by for point in sweep(signed, signed, keep=[2], views=signed, progress=False).points}
    assert names == {*SELECTORS, "all features"}


def test_a_sweep_can_be_a_table_json_or_a_plot(labelled, tmp_path):
    found = sweep(*labelled, keep=[2], selectors=["variance", "random"], progress=False)
    lines = found.markdown().splitlines()
    assert lines[0] == "| keep | by | probe | precision@10 | bytes per sample |"
    assert lines[2].startswith("| 2 | variance |") and lines[3].startswith("|  | random |")
    assert "200 train samples" in lines[-1] and "seed 0" in lines[-1]
    assert json.loads(json.dumps(found.to_dict()))["points"][0]["by"] == "variance"
    assert found.plot(tmp_path / "a.png").read_bytes() == found.plot(tmp_path / "b.png").read_bytes()
    assert found.plot(tmp_path / "a.svg").read_text().startswith("<?xml")
    with pytest.raises(InputError, match=r"a\.txt.* \.png, \.svg, \.pdf"):
        found.plot(tmp_path / "a.txt")


def test_invalid_arguments_are_errors(labelled):
    train, test = labelled
    with pytest.raises(InputError, match="keep has 17"):
        sweep(train, test, keep=[17], progress=False)
    with pytest.raises(InputError, match="train has 16 features and test 2"):
        sweep(train, keep(test, [0, 1]), progress=False)
    with pytest.raises(InputError, match="no labels"):
        sweep(train, Features(test.codes), progress=False)
