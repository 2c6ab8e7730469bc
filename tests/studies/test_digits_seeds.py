"""The published figures of the demo on digits, as means over seeds 0 to 2. Takes two minutes."""

import statistics

import pytest

from nonneg.studies import demo

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def means(tmp_path_factory):
    pairs = [demo("digits", tmp_path_factory.mktemp("seeds") / str(seed), seed) for seed in range(3)]
    keys = pairs[0][0].figures
    return [{key: statistics.mean(pair[side].figures[key] for pair in pairs) for key in keys} for side in (0, 1)]


def test_features_are_sparse_and_consistent(means):
    _, ncl = means
    assert ncl["sparsity"] >= 0.90
    assert ncl["class_consistency"] >= 0.70
    assert ncl["class_consistency_supported"] >= 0.70


def test_probe_and_retrieval_are_as_good_as_without_non_negativity(means):
    cl, ncl = means
    assert ncl["probe_encoder"] >= cl["probe_encoder"] - 0.005
    assert ncl["precision_at_10"] >= cl["precision_at_10"]
