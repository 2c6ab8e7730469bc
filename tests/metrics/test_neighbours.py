"""Retrieval and recall of sparse codes: compiled loops against dense ones, and ties."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from nonneg import metrics


def sparse_codes(samples=300, features=200, active=5, seed=0, signed=False):
    """Few values, so that there are ties; some rows are empty, some repeated."""
    rng = np.random.default_rng(seed)
    z = np.zeros((samples, features), np.float32)
    for row in z[5:]:
        row[rng.choice(features, active, replace=False)] = rng.choice([-1, 1, 2] if signed else [1, 2], active)
    z[-40:] = z[10:50]
    return z


def on_torch(metric, *arguments, **options):
    """The same metric with every input taken as dense."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nonneg.metrics._codes._DENSE", 0.0)
        return metric(*arguments, **options)


@pytest.mark.parametrize("signed", [False, True], ids=["non-negative", "signed"])
@pytest.mark.parametrize("k", [1, 10, 150])
@pytest.mark.parametrize("metric", [metrics.precision_at_k, metrics.mean_average_precision])
def test_sparse_and_dense_codes_give_the_same_for_every_sample(metric, k, signed):
    z, labels = sparse_codes(signed=signed), np.arange(300) % 7
    labels[100] = 99  # alone in its class
    dense = on_torch(metric, z, labels, k=k, reduce=False)
    sparse = metric(sp.csr_array(z), labels, k=k, reduce=False)
    np.testing.assert_allclose(sparse, dense, atol=1e-9)
    assert metric(z, labels, k=k) == metric(sp.csr_array(z), labels, k=k) == pytest.approx(float(dense.nanmean()))


def test_several_threads_give_what_one_gives(monkeypatch):
    z, labels = sp.csr_array(sparse_codes(600)), np.arange(600) % 7
    figures = (
        lambda: metrics.precision_at_k(z, labels),
        lambda: metrics.mean_average_precision(z, labels),
        lambda: metrics.recall_at_k(z, z),
        lambda: metrics.class_consistency(z, labels).floor,
        lambda: metrics.sepin(z, abs(z), k=[5]).at[5],
    )
    results = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        results.append([figure() for figure in figures])
    assert results[0] == results[1]


def test_float32_ties_do_not_depend_on_the_form():
    # Multiples of the same rows: equal cosines but for rounding.
    z = sparse_codes() * np.random.default_rng(1).random((300, 1), np.float32)
    labels = np.arange(300) % 2
    dense, sparse = on_torch(metrics.precision_at_k, z, labels), metrics.precision_at_k(sp.csr_array(z), labels)
    assert sparse == pytest.approx(dense, abs=1e-6)


def test_figures_of_samples_are_nan_where_left_out():
    labels = np.array([0, 0, 1, -1, 0])
    each = metrics.precision_at_k(np.eye(5), labels, k=2, reduce=False)
    assert each.isnan().tolist() == [False, False, False, True, False]
    average = metrics.mean_average_precision(np.eye(5), labels, k=2, reduce=False)
    assert average.isnan().tolist() == [False, False, True, True, False]


@pytest.mark.parametrize("k", [1, 3])
def test_recall_equals_the_loop(k, monkeypatch):
    monkeypatch.setattr("nonneg.metrics._recall._CHUNK", 7)  # several chunks, the last one smaller
    a, b = sparse_codes(60), sparse_codes(60)
    b[:, :100] += np.random.default_rng(2).integers(0, 2, (60, 100))
    units = [z / np.maximum(np.linalg.norm(z.astype(float), axis=1, keepdims=True), 1e-30) for z in (a, b)]
    chances = []
    for i, similarity in enumerate((units[0] @ units[1].T).round(9)):
        nearer, level = (similarity > similarity[i]).sum(), (similarity == similarity[i]).sum()
        chances.append(np.clip((k - nearer) / level, 0, 1))
    assert 0.05 < np.mean(chances) < 0.95
    assert on_torch(metrics.recall_at_k, a, b, k) == pytest.approx(np.mean(chances))
    assert metrics.recall_at_k(sp.csr_array(a), sp.csr_array(b), k) == pytest.approx(np.mean(chances))
    assert metrics.recall_at_k(sp.csr_array(a), torch.from_numpy(b), k) == pytest.approx(np.mean(chances))


def test_rows_that_are_level_share_the_place():
    assert metrics.recall_at_k(torch.ones(4, 2), torch.ones(4, 2)) == 0.25
    assert metrics.recall_at_k(torch.ones(4, 2), torch.ones(4, 2), k=3) == 0.75


@pytest.mark.parametrize(
    ("a", "b", "k", "message"),
    [
        (torch.ones(4, 2), torch.ones(4, 3), 1, r"a has shape \(4, 2\) and b \(4, 3\)"),
        (torch.ones(4, 2), torch.ones(4, 2), 5, "k is 5, expected 1 to 4"),
    ],
)
def test_recall_refuses_bad_input_by_name(a, b, k, message):
    with pytest.raises(ValueError, match=message):
        metrics.recall_at_k(a, b, k)
