import numpy as np
import pytest
import torch
from sklearn.metrics import mutual_info_score

from nonneg import metrics
from nonneg.metrics._information_gap import information


@pytest.fixture
def codes():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 6)).clip(0)
    z[:, 4] = 0  # constant
    z[3] = 0
    return z


@pytest.fixture
def factors(codes):
    rng = np.random.default_rng(1)
    return {"shape": (codes[:, 1] > 0.5).astype(int), "size": np.digitize(codes[:, 2] + rng.normal(size=300), [0, 1])}


def equal_width(column, bins):
    edges = np.linspace(column.min(), column.max(), bins + 1)
    return np.clip(np.searchsorted(edges, column, side="right") - 1, 0, bins - 1)


def zero_quantiles(column, bins):
    cut = np.zeros(len(column), int)
    active = np.flatnonzero(column)
    order = active[np.argsort(column[active])]
    for place, row in enumerate(order):
        cut[row] = 1 + place * (bins - 1) // len(order)
    return cut


@pytest.mark.parametrize(("binning", "cut"), [("equal-width", equal_width), ("zero-quantiles", zero_quantiles)])
@pytest.mark.parametrize("bins", [2, 7, 20])
def test_the_gap_equals_that_from_scikit_learns_mutual_information(binning, cut, bins, codes, factors):
    result = metrics.mutual_information_gap(codes, factors, bins, binning)
    for name, values in factors.items():
        information = sorted(mutual_info_score(cut(column, bins), values) for column in codes.T)
        expected = (information[-1] - information[-2]) / mutual_info_score(values, values)
        assert result.per_factor[name] == pytest.approx(expected, abs=1e-9)
    assert result.value == float(result) == pytest.approx(np.mean(list(result.per_factor.values())))
    assert f"{bins} bins" in result.variant


@pytest.mark.parametrize("entries", [700, 1, 2**24])  # two features, one feature and all features at a time
def test_information_does_not_depend_on_how_many_features_are_counted_at_a_time(entries, codes, factors):
    binned = torch.from_numpy(np.stack([equal_width(column, 7) for column in codes.T], axis=1))
    found = information(binned, torch.from_numpy(factors["size"]), 7, entries)
    expected = [mutual_info_score(column, factors["size"]) for column in binned.T.numpy()]
    assert found.tolist() == pytest.approx(expected, abs=1e-9)


def test_the_gap_is_large_for_a_factor_in_one_feature_and_zero_for_a_shared_one():
    z = np.eye(3)[np.arange(30) % 3]
    assert metrics.mutual_information_gap(z[:, :2], {"first": np.arange(30) % 3 == 0}).value > 0.5
    assert metrics.mutual_information_gap(np.repeat(z[:, :1], 2, 1), {"first": np.arange(30) % 3}).value == 0


def test_zero_quantiles_resolve_values_that_an_outlier_hides_in_equal_bins():
    rng = np.random.default_rng(0)
    z = np.stack([rng.random(200) + 0.1, rng.random(200)], axis=1)
    factor = z[:, 0] > np.median(z[:, 0])
    z[0, 0] = 1000.0
    wide, quantiles = (
        metrics.mutual_information_gap(z, {"large": factor}, 10, binning).value
        for binning in ("equal-width", "zero-quantiles")
    )
    assert wide < 0.2 < 0.8 < quantiles


def test_factors_may_be_the_columns_of_an_array(codes, factors):
    named = metrics.mutual_information_gap(codes, factors)
    for columns in (np.stack(list(factors.values()), 1), torch.tensor(np.stack(list(factors.values()), 1))):
        assert metrics.mutual_information_gap(codes, columns).per_factor == {
            "0": named.per_factor["shape"],
            "1": named.per_factor["size"],
        }


def test_samples_with_a_negative_factor_value_are_left_out(codes, factors):
    codes[0], codes[1] = codes.max(0), codes.min(0)  # bins are the same without the others
    unknown = np.arange(300) % 4 == 3
    partly = {"shape": np.where(unknown, -1, factors["shape"])}
    known = metrics.mutual_information_gap(codes[~unknown], {"shape": factors["shape"][~unknown]})
    assert metrics.mutual_information_gap(codes, partly).value == pytest.approx(known.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"a": [0, 0, 0]},), "factor a.*single value"),
        (({"a": [0, 1]},), r"factor a.*\(2,\).*\(3,\)"),
        (({},), "factors is empty"),
        (([0, 1, 0],), r"factors.*\(3,\)"),
        (({"a": [0, 1, 0]}, 1), "bins is 1"),
        (({"a": [0, 1, 0]}, 5, "round"), "binning is 'round'"),
    ],
)
def test_invalid_input_is_reported_by_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.mutual_information_gap(np.ones((3, 2)), *arguments)
