"""Confidence intervals and paired tests."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from nonneg import metrics
from nonneg.evaluate import bootstrap_error, bootstrap_interval, paired_difference
from nonneg.evaluate._statistics import consistency_errors


def test_the_interval_holds_the_quantiles_of_resampled_means():
    rng = np.random.default_rng(0)
    values = rng.exponential(size=400)
    means = [rng.choice(values, 400).mean() for _ in range(4000)]
    assert bootstrap_interval(values) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.015)


def test_95_percent_intervals_cover_the_true_mean_95_percent_of_the_time():
    rng = np.random.default_rng(1)
    held = [low <= 0.7 <= high for low, high in (bootstrap_interval(rng.random(300) < 0.7) for _ in range(300))]
    assert np.mean(held) == pytest.approx(0.95, abs=0.04)


def test_the_interval_of_many_different_values_is_that_of_the_normal_distribution():
    # So many values that their resampled counts do not fit into one block of memory.
    values = np.random.default_rng(2).normal(size=20_000)
    margin = 1.96 * values.std() / np.sqrt(len(values))
    assert bootstrap_interval(values, resamples=1000) == pytest.approx(
        (values.mean() - margin, values.mean() + margin), abs=0.002
    )


def test_nan_values_are_left_out():
    assert bootstrap_interval([np.nan, 1.0, 1.0]) == (1.0, 1.0)
    assert np.isnan(bootstrap_interval([np.nan])).all()


def test_the_difference_equals_scipys_paired_t_test():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=12), rng.normal(0.3, size=12)
    found, theirs = paired_difference(a, b, "seeds"), stats.ttest_rel(b, a)
    interval = theirs.confidence_interval()
    assert (found.p, found.low, found.high) == pytest.approx((theirs.pvalue, interval.low, interval.high))
    assert found.mean == pytest.approx((b - a).mean()) and found.over == "seeds"


@pytest.mark.parametrize(("a", "b"), [([0.5], [0.6]), ([0.5, 0.5], [0.5, 0.5]), ([0.1, 0.7], [0.4, 1.0])])
def test_one_pair_or_equal_differences_have_no_p_value(a, b):
    found = paired_difference(a, b, "seeds")
    assert found.mean == pytest.approx(b[0] - a[0]) and np.isnan([found.low, found.high, found.p]).all()


@pytest.mark.parametrize("most", [900, 100])
def test_the_error_of_a_statistic_is_its_deviation_over_data_sets_also_from_fewer_rows(most):
    rng = np.random.default_rng(4)
    drawn = [float(np.median(rng.exponential(size=900))) for _ in range(500)]
    values = rng.exponential(size=900)
    error = bootstrap_error(lambda rows: float(np.median(values[rows])), 900, most)
    assert error == pytest.approx(np.std(drawn), rel=0.3)


def test_a_statistic_that_is_never_defined_has_no_error():
    assert np.isnan(bootstrap_error(lambda rows: float("nan"), 10, 10))


@pytest.mark.parametrize("make", [sp.csr_array, np.asarray], ids=["sparse", "dense"])
def test_errors_of_class_consistency_equal_those_of_resampled_data(make):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5, 400)
    codes = make(np.maximum(rng.normal(size=(400, 12)) - 1.5 + 0.3 * (labels[:, None] == np.arange(12)), 0))
    draws, drawn = np.random.default_rng(0), []
    for _ in range(40):
        rows = draws.integers(0, 400, 400)
        again = metrics.class_consistency(codes[rows], labels[rows], min_support=25, permutations=0)
        drawn.append((again.value, again.supported))
    errors = consistency_errors(codes, labels, min_support=25)
    np.testing.assert_allclose(errors, np.std(drawn, axis=0, ddof=1), rtol=1e-5)
    assert errors[0] != errors[1]
