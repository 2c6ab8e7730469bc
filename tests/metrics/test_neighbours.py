"""Retrieval and recall: the compiled loops for sparse codes against dense products, ties, and blocks of queries."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from benchmarks.memory import peak_bytes
from nonneg import metrics
from nonneg.metrics._retrieval import query_blocks


def codes(samples=300, features=40, active=5, seed=0, signed=False):
    """Few distinct values, so that there are ties; some rows are empty and some repeated.

    As an array this has above 10% non-zero entries and is treated as dense; as a CSR matrix it is treated as sparse.
    """
    rng = np.random.default_rng(seed)
    z = np.zeros((samples, features), np.float32)
    for row in z[5:]:
        row[rng.choice(features, active, replace=False)] = rng.choice([-1, 1, 2] if signed else [1, 2], active)
    z[-40:] = z[10:50]
    return z


@pytest.mark.parametrize("signed", [False, True], ids=["non-negative", "signed"])
@pytest.mark.parametrize("k", [1, 10, 150])
@pytest.mark.parametrize("metric", [metrics.precision_at_k, metrics.mean_average_precision])
def test_sparse_and_dense_codes_give_the_same_value_for_every_sample(metric, k, signed):
    z, labels = codes(signed=signed), np.arange(300) % 7
    labels[100] = 99  # alone in its class
    dense = metric(z, labels, k=k, reduce=False)
    sparse = metric(sp.csr_array(z), labels, k=k, reduce=False)
    np.testing.assert_allclose(sparse, dense, atol=1e-9)
    assert metric(z, labels, k=k) == pytest.approx(metric(sp.csr_array(z), labels, k=k), abs=1e-9)
    assert metric(z, labels, k=k) == pytest.approx(float(dense.nanmean()))


@pytest.mark.parametrize("k", [1, 10])
def test_mostly_zero_arrays_are_treated_as_sparse(k):
    z, labels = codes(features=200), np.arange(300) % 7
    assert metrics.precision_at_k(z, labels, k) == metrics.precision_at_k(sp.csr_array(z), labels, k)


@pytest.mark.parametrize(("queries", "candidates"), [(1, 10), (1500, 5000), (1_281_167, 1_281_167), (3, 10**9)])
def test_query_blocks_cover_all_queries_within_256_mib(queries, candidates):
    blocks = list(query_blocks(queries, candidates))
    assert [last for _, last in blocks[:-1]] == [first for first, _ in blocks[1:]]
    assert blocks[0][0] == 0 and blocks[-1][1] == queries
    sizes = {last - first for first, last in blocks}
    assert max(sizes) <= 1024
    assert max(sizes) == 1 or max(sizes) * candidates * 8 <= 2**28


@pytest.mark.parametrize("metric", [metrics.precision_at_k, metrics.mean_average_precision])
def test_one_block_is_held_at_a_time(metric):
    z, labels = torch.rand(2500, 4, generator=torch.Generator().manual_seed(0)), torch.arange(2500) % 7
    assert peak_bytes(lambda: metric(z, labels)) < 2.1 * 1024 * 2500 * 8


def test_retrieval_over_several_blocks_equals_a_full_ranking():
    z = np.random.default_rng(0).random((2500, 8))
    labels = np.arange(2500) % 5
    units = z / np.linalg.norm(z, axis=1, keepdims=True)
    similarity = units @ units.T
    np.fill_diagonal(similarity, -np.inf)
    hits = labels[np.argsort(-similarity, axis=1)[:, :10]] == labels[:, None]
    found = metrics.precision_at_k(z, labels, reduce=False)
    np.testing.assert_allclose(found, hits.mean(1))
    precision_at_rank = np.cumsum(hits, axis=1) / np.arange(1, 11)
    found = metrics.mean_average_precision(z, labels, reduce=False)
    np.testing.assert_allclose(found, (precision_at_rank * hits).sum(1) / 10)
    noisy = z + np.random.default_rng(1).random((2500, 8)) / 10
    cross = units @ (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).T
    expected = ((cross > cross.diagonal()[:, None]).sum(1) < 3).mean()
    assert metrics.recall_at_k(z, noisy, k=3) == pytest.approx(expected)


def test_the_number_of_threads_does_not_change_results(monkeypatch):
    z, labels = sp.csr_array(codes(600)), np.arange(600) % 7
    computations = (
        lambda: metrics.precision_at_k(z, labels),
        lambda: metrics.mean_average_precision(z, labels),
        lambda: metrics.recall_at_k(z, z),
        lambda: metrics.class_consistency(z, labels).floor,
        lambda: metrics.sepin(z, abs(z), k=[5]).at[5],
    )
    results = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        results.append([compute() for compute in computations])
    assert results[0] == results[1]


def test_ties_within_rounding_are_the_same_for_sparse_and_dense_codes():
    # Multiples of the same rows have equal cosines up to rounding.
    z = codes() * np.random.default_rng(1).random((300, 1), np.float32)
    labels = np.arange(300) % 2
    dense, sparse = metrics.precision_at_k(z, labels), metrics.precision_at_k(sp.csr_array(z), labels)
    assert sparse == pytest.approx(dense, abs=1e-6)


def test_values_per_sample_are_nan_for_samples_that_are_left_out():
    labels = np.array([0, 0, 1, -1, 0])
    each = metrics.precision_at_k(np.eye(5), labels, k=2, reduce=False)
    assert each.isnan().tolist() == [False, False, False, True, False]
    average = metrics.mean_average_precision(np.eye(5), labels, k=2, reduce=False)
    assert average.isnan().tolist() == [False, False, True, True, False]


@pytest.mark.parametrize("k", [1, 3])
def test_recall_equals_a_brute_force_loop(k):
    a, b = codes(60), codes(60)
    b[:, :20] += np.random.default_rng(2).integers(0, 2, (60, 20))
    units = [z / np.maximum(np.linalg.norm(z.astype(float), axis=1, keepdims=True), 1e-30) for z in (a, b)]
    chances = []
    for i, similarity in enumerate((units[0] @ units[1].T).round(9)):
        nearer, tied = (similarity > similarity[i]).sum(), (similarity == similarity[i]).sum()
        chances.append(np.clip((k - nearer) / tied, 0, 1))
    assert 0.05 < np.mean(chances) < 0.95
    assert metrics.recall_at_k(a, b, k) == pytest.approx(np.mean(chances))
    assert metrics.recall_at_k(sp.csr_array(a), sp.csr_array(b), k) == pytest.approx(np.mean(chances))
    assert metrics.recall_at_k(sp.csr_array(a), torch.from_numpy(b), k) == pytest.approx(np.mean(chances))


def test_tied_rows_share_the_last_place():
    assert metrics.recall_at_k(torch.ones(4, 2), torch.ones(4, 2)) == 0.25
    assert metrics.recall_at_k(torch.ones(4, 2), torch.ones(4, 2), k=3) == 0.75


@pytest.mark.parametrize(
    ("a", "b", "k", "message"),
    [
        (torch.ones(4, 2), torch.ones(4, 3), 1, r"a has.*\(4, 2\).*b \(4, 3\)"),
        (torch.ones(4, 2), torch.ones(4, 2), 5, "k is 5"),
    ],
)
def test_invalid_input_of_recall_is_reported_by_argument(a, b, k, message):
    with pytest.raises(ValueError, match=message):
        metrics.recall_at_k(a, b, k)
