"""`rank` and `contributions`: the exact ranking of samples by a query vector."""

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import Features, InputError
from nonneg.search import Index, Where, contributions, rank, samples_without


def ranked_by_a_loop(codes, query, k, cosine):
    """Rows by their score, computed entry by entry in float64 from float32 codes without inactive entries."""
    scores = []
    for row in sp.csr_array(codes).toarray().astype(np.float64):
        length = np.sqrt((row**2).sum())
        kept = np.where(np.abs(row) > 1e-5 * length, row, 0)
        kept = kept / length if cosine and length else kept
        score = 0.0
        for weight, value in zip(query, kept.astype(np.float32), strict=True):
            score += weight * float(value)
        scores.append(score)
    return sorted((row for row, score in enumerate(scores) if score > 0), key=lambda row: (-scores[row], row))[:k]


@pytest.mark.parametrize("cosine", [True, False])
def test_rank_equals_a_plain_loop(codes, queries, cosine):
    for layout in (codes, codes.toarray()):
        features = Features(layout)
        for query in queries:
            assert rank(features, query, k=20, cosine=cosine)[0].tolist() == ranked_by_a_loop(codes, query, 20, cosine)


def test_cosine_compares_directions_and_the_inner_product_lengths():
    features = Features(np.array([[10.0, 10.0], [1.0, 0.0]]))
    assert rank(features, [1.0, 0.0])[0].tolist() == [1, 0]
    assert rank(features, [1.0, 0.0], cosine=False)[0].tolist() == [0, 1]


@pytest.mark.parametrize("cosine", [True, False])
def test_contributions_add_up_to_the_score(features, queries, cosine):
    for query in queries:
        for row, score in zip(*rank(features, query, k=5, cosine=cosine), strict=True):
            numbers, values = contributions(features, query, int(row), cosine=cosine)
            assert (np.diff(numbers) > 0).all() and values.all()
            assert sum(values.tolist()) == pytest.approx(score, rel=1e-12)


def test_signed_codes_and_weights_are_ranked():
    features = Features(np.array([[1.0, -2.0], [1.0, 2.0], [-1.0, 0.0]]))
    rows, scores = rank(features, [0.0, -1.0])
    assert rows.tolist() == [0] and scores[0] == pytest.approx(2 / np.sqrt(5))


def test_ties_come_in_the_order_of_rows_and_scores_of_zero_are_left_out():
    features = Features(np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]))
    assert rank(features, [1.0, 0.0], k=2)[0].tolist() == [1, 2]
    assert rank(features, [1.0, 0.0], k=100)[0].tolist() == [1, 2, 3]
    assert len(rank(features, [0.0, 0.0])[0]) == 0


def test_only_allowed_samples_are_returned(features, queries):
    allowed = np.arange(300) % 3 == 0
    rows, _ = rank(features, queries[0], k=50, allowed=allowed)
    everything = rank(features, queries[0], k=300)[0]
    assert rows.tolist() == [row for row in everything.tolist() if row % 3 == 0][:50]


@pytest.mark.parametrize("cosine", [True, False])
def test_a_faint_but_inactive_feature_does_not_exclude_a_sample(cosine):
    features = Features(np.array([[1.0, 1e-7, 0.0], [1.0, 0.1, 0.0], [1.0, 0.0, 0.0]]))
    assert samples_without(features, [1]).tolist() == [True, False, True]
    found = Index.build(features, cosine=cosine).query([1.0, 0.0, 0.0], where=Where(without=(1,)))
    assert found.rows[0].tolist() == [0, 2, -1]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"query": [1.0, 2.0]}, r"query.*\(2,\).*60"),
        ({"query": np.full(60, np.nan)}, "query"),
        ({"k": 0}, "k is 0"),
        ({"allowed": np.ones(3, bool)}, r"allowed.*\(3,\).*300"),
        ({"allowed": np.ones(300)}, "allowed.*float64"),
    ],
)
def test_wrong_arguments_are_named_in_the_error(features, arguments, found):
    with pytest.raises(InputError, match=found):
        rank(features, arguments.pop("query", np.ones(60)), **arguments)
    with pytest.raises(InputError, match="without is 60"):
        samples_without(features, [60])
