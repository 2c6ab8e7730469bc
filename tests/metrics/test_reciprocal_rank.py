"""MRR against a plain loop, with ties."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from nonneg.metrics import mean_reciprocal_rank, recall_at_k


def by_hand(a, b, k):
    """Sort the candidates of each row; of tied ones, take the mean over the ranks that they share."""
    unit = [z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300) for z in (a, b)]
    found = []
    for row, query in enumerate(unit[0]):
        cosines = unit[1] @ query
        nearer = sum(other > cosines[row] + 1e-9 for other in cosines)
        tied = sum(abs(other - cosines[row]) <= 1e-9 for other in cosines)
        found.append(np.mean([1 / rank if rank <= k else 0 for rank in range(nearer + 1, nearer + tied + 1)]))
    return np.array(found)


@pytest.mark.parametrize("k", [1, 3, 10, 100])
@pytest.mark.parametrize("form", [np.asarray, torch.from_numpy, sp.csr_array])
def test_it_is_that_of_a_plain_loop(k, form):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, (40, 5)).astype(float)  # many ties and some empty rows
    b = np.where(rng.random((40, 5)) < 0.7, a, rng.integers(0, 2, (40, 5)))
    values = mean_reciprocal_rank(form(a), form(b), k, reduce=False).numpy()
    np.testing.assert_allclose(values, by_hand(a, b, k))
    assert mean_reciprocal_rank(form(a), form(b), k) == pytest.approx(values.mean())


def test_at_1_it_is_the_recall():
    rng = np.random.default_rng(1)
    a, b = rng.random((30, 4)), rng.random((30, 4)).round(1)
    assert mean_reciprocal_rank(a, b, 1) == pytest.approx(recall_at_k(a, b, 1))


@pytest.mark.parametrize(("b", "k", "name"), [(np.ones((2, 3)), 1, "shape"), (np.ones((3, 3)), 0, "k is 0")])
def test_other_shapes_and_ranks_are_errors(b, k, name):
    with pytest.raises(ValueError, match=name):
        mean_reciprocal_rank(np.ones((3, 3)), b, k)


def test_of_several_own_rows_the_nearest_counts_and_the_others_do_not_stand_before_it():
    a = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    b = np.array([[1.0, 0.0], [0.9, 0.1], [0.5, 0.5]])
    own = sp.csr_array(np.array([[0, 1, 0], [0, 0, 1], [1, 1, 0]], bool))
    assert mean_reciprocal_rank(a, b, reduce=False, own=own).tolist() == [0.5, 1.0, 1.0]
    with pytest.raises(ValueError, match="own"):
        mean_reciprocal_rank(a, b, own=own[:2])
    with pytest.raises(ValueError, match="own"):
        mean_reciprocal_rank(a, b, own=sp.csr_array((3, 3), dtype=bool))
