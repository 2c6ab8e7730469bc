"""Metrics of pairs: who finds a partner, and whether both sides agree on a feature."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from nonneg import metrics

RNG = np.random.default_rng(0)
PICTURES = np.maximum(RNG.normal(size=(40, 6)), 0)
TEXTS = np.maximum(PICTURES + RNG.normal(size=(40, 6)) - 0.5, 0)


def test_auc_is_that_of_scikit_learn_for_each_feature():
    TEXTS[:, 5] = 0  # active on no text
    found = metrics.partner_auc(PICTURES, TEXTS)
    expected = [roc_auc_score(TEXTS[:, i] > 0, PICTURES[:, i]) for i in range(5)]
    assert found.per_feature[:5].tolist() == pytest.approx(expected)
    assert found.per_feature[5].isnan() and found.defined == 5
    assert found.value == pytest.approx(np.median(expected))
    again = metrics.partner_auc(sp.csr_array(PICTURES), sp.csr_array(TEXTS))
    assert again.per_feature[:5].tolist() == pytest.approx(expected)


def test_auc_names_the_shapes_if_they_differ():
    with pytest.raises(ValueError, match=r"\(40, 6\).*\(39, 6\)"):
        metrics.partner_auc(PICTURES, TEXTS[1:])


def test_any_row_of_the_group_counts_and_ties_count_by_their_share():
    a = np.eye(3)
    b = np.array([[0.2, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0.9, 0.1], [0, 0, 0]])
    groups = [0, 0, 2, 1, 1]
    found = metrics.group_recall_at_k(a, b, [0, 1, 2], groups, k=1).tolist()
    assert found == pytest.approx([1, 0, 0.0])
    # With zero codes everything is tied: each of the 5 candidates may come first, of which 1 of group 2 counts.
    assert metrics.group_recall_at_k(np.zeros((1, 3)), b, [2], groups, k=1).tolist() == pytest.approx([0.2])
    assert metrics.group_recall_at_k(a, b, [7, 7, 7], groups, k=5).tolist() == [0, 0, 0]


@pytest.mark.parametrize("k", [1, 2, 4])
def test_several_tied_rows_count_by_the_share_of_all_orders(k):
    # The query is as near to 2 own rows and 3 others; another row is nearer, and an own one farther.
    query = np.array([[1.0, 0.0]])
    rows = np.array([[1, 0.1], [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], [1, 3]])
    is_own = np.array([0, 1, 0, 1, 0, 0, 1])
    first = [1 + order.index(1) for order in itertools.permutations([1, 1, 0, 0, 0])]
    recall = np.mean([1 + rank <= k for rank in first])
    reciprocal = np.mean([1 / (1 + rank) if 1 + rank <= k else 0 for rank in first])
    assert metrics.group_recall_at_k(query, rows, [1], is_own, k).item() == pytest.approx(recall, rel=1e-12)
    own = sp.csr_array(is_own[None])
    assert metrics.mean_reciprocal_rank(query, rows, k, own=own) == pytest.approx(reciprocal, rel=1e-12)


def test_recall_with_groups_of_one_row_is_recall_at_k():
    rows = np.arange(len(PICTURES))
    for k in (1, 10):
        found = metrics.group_recall_at_k(TEXTS, PICTURES, rows, rows, k).mean()
        assert found.item() == pytest.approx(metrics.recall_at_k(TEXTS, PICTURES, k))
