"""The whole demo: digits for 25 of 80 epochs, shapes for two."""

import json
import re

import numpy as np
import pytest

import nonneg
from nonneg.features import verify
from nonneg.modalities.images import open_source
from nonneg.studies import demo


@pytest.fixture(scope="module", params=["digits", pytest.param("shapes", marks=pytest.mark.slow)])
def finished(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / request.param
    return request.param, out, demo(data=request.param, out=out, epochs={"digits": 25, "shapes": 2}[request.param])


def test_both_sides_differ_only_in_the_activation_of_the_projector(finished):
    _, out, _ = finished
    a, b = ((out / side / "config.toml").read_text().splitlines() for side in ("cl", "ncl"))
    assert [(x, y) for x, y in zip(a, b, strict=True) if x != y] == [('rectify = "none"', 'rectify = "relu"')]


def test_results_features_and_models_can_be_read_again(finished):
    data, out, outcomes = finished
    results = json.loads((out / "results.json").read_text())
    assert results["finished"] is True
    for outcome in outcomes:
        assert results[outcome.name]["sparsity"] == outcome.figures["sparsity"]
        features = verify(out / f"{outcome.name.lower()}.features")
        assert len(features) == {"digits": 397, "shapes": 512}[data]
        assert nonneg.load(outcome.run).config.features == features.shape[1]


def test_ncl_is_sparse_and_consistent_above_chance_and_cl_is_neither(finished):
    _, _, (cl, ncl) = finished
    assert cl.figures["sparsity"] < 0.01
    assert ncl.figures["sparsity"] > 0.5
    assert cl.figures["class_consistency_supported"] == pytest.approx(cl.figures["class_consistency_floor"])
    assert ncl.figures["class_consistency_supported"] > ncl.figures["class_consistency_floor"] + 0.05


def test_digits_approach_the_published_figures(finished):
    """`make test-slow` checks the published figures themselves."""
    data, _, (cl, ncl) = finished
    if data != "digits":
        pytest.skip("shapes are trained for two epochs only")
    assert ncl.figures["sparsity"] >= 0.90
    assert ncl.figures["class_consistency_supported"] >= 0.60
    assert ncl.figures["probe_encoder"] >= cl.figures["probe_encoder"] - 0.01
    assert ncl.figures["precision_at_10"] >= cl.figures["precision_at_10"] - 0.01


def test_features_that_follow_a_factor_are_active_on_enough_samples_with_its_value(finished):
    data, _, (_, ncl) = finished
    if data != "shapes":
        pytest.skip("digits have no known factors")
    test = open_source("shapes", "test")
    for feature, meaning in ncl.meanings.items():
        rows, values = ncl.projector.column(feature)
        active = rows[values > 1e-5 * np.linalg.norm(ncl.projector.codes[rows].toarray(), axis=1)]
        assert len(active) >= 10
        for factor, value in meaning.items():
            number = test.factor_names[factor].index(value)
            assert np.mean(test.factors[factor][active] == number) >= 0.8


def test_factors_are_reported_if_they_are_known(finished):
    data, out, (cl, ncl) = finished
    assert cl.meanings == {}
    assert bool(ncl.meanings) == (data == "shapes")
    assert ("features that follow colour" in (out / "report.html").read_text()) == (data == "shapes")


def test_the_report_is_self_contained(finished):
    _, out, _ = finished
    page = (out / "report.html").read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "@import" not in page
    assert page.count("<img ") >= 2 * 100
    assert page.count("<svg") == 3
