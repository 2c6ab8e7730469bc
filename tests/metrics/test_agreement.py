import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from nonneg import metrics


def codes(seed, samples=40, features=6):
    return np.random.default_rng(seed).normal(size=(samples, features)).clip(0)


def cosine(x, y):
    return float(x @ y / math.sqrt((x @ x) * (y @ y)))


@pytest.mark.parametrize("signed", [True, False])
def test_match_is_the_best_of_all_matches(signed):
    a, b = codes(0) - 0.4, codes(1)[:, :5] - 0.4
    best = max(
        sum((cosine if signed else lambda x, y: abs(cosine(x, y)))(a[:, j], b[:, i]) for i, j in enumerate(chosen))
        for chosen in itertools.permutations(range(6), 5)
    )
    found = metrics.match(a, b, signed)
    assert float(found.cosine.sum()) == pytest.approx(best)
    assert len(set(found.a.tolist())) == len(set(found.b.tolist())) == 5


def test_dead_features_are_not_matched():
    a = codes(0)
    a[:, 2] = 0
    b = codes(0)[:, ::-1].copy()
    b[:, 0] = 0  # feature 5 of a
    for kind in (torch.from_numpy, sp.csr_array):
        found = metrics.match(kind(a), kind(b))
        pairs = dict(zip(found.a.tolist(), found.b.tolist(), strict=True))
        assert len(pairs) == 5
        assert 2 not in pairs
        assert 0 not in pairs.values()
        assert [pairs[j] for j in (0, 1, 3, 4)] == [5, 4, 2, 1]


def test_codes_without_live_features_have_no_matches():
    found = metrics.match(torch.zeros(5, 3), torch.ones(5, 3))
    assert len(found.a) == len(found.b) == len(found.cosine) == 0


def test_sparse_dense_and_mixed_inputs_give_the_same_match():
    rng = np.random.default_rng(0)
    a = (rng.random((80, 30)) < 0.2) * rng.random((80, 30))  # above 10% non-zero entries, arrays are treated as dense
    b = a[:, rng.permutation(30)] + (rng.random((80, 30)) < 0.01)
    sparse = metrics.match(sp.csr_array(a), sp.csr_array(b)).cosine.sum()
    for x, y in ((sp.csr_array(a), b), (a, sp.csr_array(b)), (a, b)):
        assert float(metrics.match(x, y).cosine.sum()) == pytest.approx(float(sparse), abs=1e-9)


def test_agreement_is_the_mean_over_pairs_of_runs():
    runs = [codes(0), codes(0)[:, [3, 1, 2, 0, 5, 4]], codes(1), codes(2, features=8)]
    result = metrics.agreement(runs)
    assert set(result.per_pair) == set(itertools.combinations(range(4), 2))
    for (i, j), value in result.per_pair.items():
        assert value == pytest.approx(float(metrics.match(runs[i], runs[j]).cosine.mean()))
    assert result.per_pair[0, 1] == pytest.approx(1)
    assert result.value == float(result) == pytest.approx(np.mean(list(result.per_pair.values())))
    assert (result.unmatched[0, 1], result.unmatched[0, 3]) == (0, 2)


def test_the_standard_error_of_agreement_is_the_jackknife_over_runs():
    runs = [codes(seed) for seed in range(5)]
    without = [metrics.agreement(runs[:i] + runs[i + 1 :]).value for i in range(5)]
    expected = math.sqrt(4 / 5 * sum((v - np.mean(without)) ** 2 for v in without))
    assert metrics.agreement(runs).standard_error == pytest.approx(expected)
    assert math.isnan(metrics.agreement(runs[:2]).standard_error)


def test_unsigned_agreement_ignores_signs():
    assert metrics.agreement([codes(0), -codes(0)], signed=False).value == pytest.approx(1)
    assert metrics.agreement([codes(0), -codes(0)]).value < 0


def test_a_single_run_or_different_samples_are_reported():
    with pytest.raises(ValueError, match="codes holds 1"):
        metrics.agreement([codes(0)])
    with pytest.raises(ValueError, match=r"a has 40.*b 30"):
        metrics.agreement([codes(0), codes(0, samples=30)])
