"""The demo as a whole, short of its length: everything it writes is there, whole and self-contained."""

import json
import re

import pytest

import nonneg
from nonneg.features import verify
from nonneg.studies import demo


@pytest.fixture(scope="module", params=["digits", "shapes"])
def finished(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / request.param
    return request.param, out, demo(data=request.param, out=out, epochs=4 if request.param == "digits" else 2)


def test_both_sides_have_the_same_seed_and_budget_and_differ_in_the_map_alone(finished):
    _, out, _ = finished
    a, b = ((out / side / "config.toml").read_text().splitlines() for side in ("cl", "ncl"))
    assert [(x, y) for x, y in zip(a, b, strict=True) if x != y] == [('rectify = "none"', 'rectify = "relu"')]


def test_what_is_written_can_be_read_again(finished):
    data, out, outcomes = finished
    results = json.loads((out / "results.json").read_text())
    assert results["finished"] is True
    for outcome in outcomes:
        assert results[outcome.name]["sparsity"] == outcome.figures["sparsity"]
        features = verify(out / f"{outcome.name.lower()}.features")
        assert len(features) == {"digits": 397, "shapes": 512}[data]
        assert nonneg.load(outcome.run).config.features == features.shape[1]


def test_ncl_is_sparse_and_consistent_above_chance_where_cl_is_neither(finished):
    _, _, (cl, ncl) = finished
    assert cl.figures["sparsity"] < 0.01
    assert ncl.figures["sparsity"] > 0.5
    assert cl.figures["class_consistency_supported"] == pytest.approx(cl.figures["class_consistency_floor"])
    assert ncl.figures["class_consistency_supported"] > ncl.figures["class_consistency_floor"] + 0.05


def test_factors_are_reported_where_they_are_known(finished):
    data, out, (cl, ncl) = finished
    assert cl.meanings == {}
    assert bool(ncl.meanings) == (data == "shapes")
    assert ("features that follow colour" in (out / "report.html").read_text()) == (data == "shapes")


def test_the_report_needs_nothing_else(finished):
    _, out, _ = finished
    page = (out / "report.html").read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "@import" not in page
    assert page.count("<img ") >= 2 * 100
    assert page.count("<svg") == 3


def test_the_report_shows_hostile_labels_as_text(tmp_path):
    import numpy as np

    from nonneg import Features
    from nonneg.report import Side, Table, write_report

    features = Features(
        np.random.default_rng(0).random((40, 5), np.float32),
        labels=np.arange(40) % 2,
        label_names=("<script>alert(1)</script>", 'a" onerror="alert(1)'),
        media=[b"png"] * 40,
    )
    log = [{"epoch": 1, "loss": 1.0, "sparsity": 0.5}]
    side = Side("one", "<b>bold</b>", features, log, {0: "<i>note</i>"})
    write_report(tmp_path / "r.html", "<title>", "lead", [side], Table(("one",), ()), {"<u>": "<s>"})
    page = (tmp_path / "r.html").read_text()
    for hostile in ("<script>alert", "<b>bold", "<i>note", "<u>", "<s>", '" onerror="alert(1)"'):
        assert hostile not in page
