"""Each metric against plain loops, and dense against sparse input."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
import torch

from nonneg import metrics
from nonneg.metrics._tally import tally_of


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def codes(request):
    generator = torch.Generator().manual_seed(0)
    z = (torch.randn(60, 12, generator=generator) - 0.8).relu().to(request.param)
    z[3] = 0  # an empty sample
    z[:, 5] = 0  # a dead feature
    z[:, 6] = 0
    z[7, 6] = 0.4  # a feature that is active on one sample
    for row, length in enumerate((1e-3, 1.0, 1e3), start=10):  # the threshold is relative to the row's length
        z[row] = 0
        z[row, :4] = torch.tensor([1.0, 0.7e-5, 1.4e-5, 0.5e-6], dtype=z.dtype) * length
    return z


@pytest.fixture
def labels():
    return torch.randint(0, 4, (60,), generator=torch.Generator().manual_seed(1)) * 3 + 1


def is_active(z):
    rows = [[float(v) for v in row] for row in z]
    lengths = [math.sqrt(sum(v * v for v in row)) or 1.0 for row in rows]
    return [[abs(v) / n > 1e-5 for v in row] for row, n in zip(rows, lengths, strict=True)]


def slow_consistency(z, labels):
    active = is_active(z)
    shares = {}
    for j in range(z.shape[1]):
        classes = [int(y) for row, y in zip(active, labels, strict=True) if row[j]]
        if classes:
            shares[j] = (max(classes.count(c) for c in set(classes)) / len(classes), len(classes))
    return shares


def test_class_consistency_equals_a_loop(codes, labels):
    result = metrics.class_consistency(codes, labels)
    shares = slow_consistency(codes, labels)
    assert result.value == pytest.approx(np.mean([s for s, _ in shares.values()]))
    assert result.supported == pytest.approx(np.mean([s for s, n in shares.values() if n >= 10]))
    assert result.live == len(shares) == 11
    assert result.n_supported == sum(n >= 10 for _, n in shares.values())
    assert [round(float(result.per_feature[j]), 9) for j in shares] == [round(s, 9) for s, _ in shares.values()]
    assert math.isnan(result.per_feature[5])


def test_a_feature_active_on_one_sample_scores_one_but_is_not_supported(codes, labels):
    result = metrics.class_consistency(codes, labels)
    assert float(result.per_feature[6]) == 1.0
    assert result.n_supported < result.live


def test_the_chance_floor_is_the_mean_over_permuted_labels(codes, labels):
    result = metrics.class_consistency(codes, labels, permutations=200)
    rng = np.random.default_rng(0)
    by_hand = []
    for _ in range(200):
        shares = slow_consistency(codes, rng.permutation(labels.numpy())).values()
        by_hand.append(np.mean([s for s, n in shares if n >= 10]))
    assert result.floor == pytest.approx(np.mean(by_hand), abs=0.01)
    assert result.excess == pytest.approx(result.supported - result.floor)


def test_dense_features_score_exactly_the_share_of_the_largest_class(labels):
    z = torch.randn(60, 8, generator=torch.Generator().manual_seed(2))
    largest = max((labels == c).sum().item() for c in labels.unique())
    result = metrics.class_consistency(z, labels)
    assert result.value == pytest.approx(largest / 60)
    assert result.excess == pytest.approx(0)


def test_purity_and_entropy_equal_a_loop(codes, labels):
    result = metrics.class_consistency(codes, labels)
    active = is_active(codes)
    commonest, supports, entropies = 0, 0, {}
    for j in range(12):
        classes = [int(y) for row, y in zip(active, labels, strict=True) if row[j]]
        counts = np.unique(classes, return_counts=True)[1]
        if len(classes):
            commonest, supports = commonest + counts.max(), supports + len(classes)
            entropies[j] = scipy.stats.entropy(counts)
    assert result.purity == pytest.approx(commonest / supports)
    assert result.entropy == pytest.approx(np.mean([h for j, h in entropies.items() if result.support[j] >= 10]))
    assert result.per_feature_entropy[list(entropies)].tolist() == pytest.approx(list(entropies.values()))
    assert math.isnan(result.per_feature_entropy[5])


@pytest.mark.parametrize("classes", [3, 50, 300])
def test_class_counts_equal_a_direct_count(codes, classes):
    y = torch.randint(0, classes, (60,), generator=torch.Generator().manual_seed(5))
    rows, columns = (codes / codes.norm(dim=1, keepdim=True) > 1e-5).nonzero(as_tuple=True)
    counts = torch.zeros(classes, 12, dtype=torch.int64).index_put_(
        (y[rows], columns), torch.ones(len(rows), dtype=torch.int64), accumulate=True
    )
    expected = tally_of(counts)
    result = metrics.class_consistency(codes, y, permutations=0)
    assert result.support.tolist() == expected.support.tolist()
    torch.testing.assert_close(result.per_feature, expected.commonest / expected.support.double(), equal_nan=True)
    torch.testing.assert_close(result.per_feature_entropy, expected.entropy, equal_nan=True)


@pytest.mark.parametrize(
    "metric",
    [
        lambda z, y: metrics.class_consistency(z, y).supported,
        lambda z, y: metrics.class_consistency(z, y).floor,
        metrics.precision_at_k,
        metrics.mean_average_precision,
    ],
)
def test_unlabelled_samples_are_left_out(metric, codes, labels):
    known = torch.arange(60) % 5 != 0
    partly = torch.where(known, labels, -1 - torch.arange(60) % 3)
    words = [f"class {y}" if y >= 0 else None for y in partly.tolist()]
    assert metric(codes, words) == pytest.approx(metric(codes, partly), rel=1e-12)
    for kind in (lambda z: z, lambda z: z.numpy(), lambda z: sp.csr_array(z.numpy())):
        assert metric(kind(codes), partly) == pytest.approx(metric(codes[known], labels[known]), rel=1e-12)


def test_labels_without_any_labelled_sample_are_reported(codes):
    with pytest.raises(ValueError, match="labels holds no label"):
        metrics.class_consistency(codes, -np.ones(60, int))


def test_activity_equals_a_loop(codes):
    codes[:50, 1] = 1.0
    result = metrics.activity(codes, dense=0.8)
    frequency = np.mean(is_active(codes), axis=0)
    assert result.frequency.tolist() == pytest.approx(frequency.tolist())
    assert (result.live, result.dead, result.dense) == (11, 1, 1)
    assert metrics.activity(codes, dense=0.0).dense == 11


def test_hoyer_equals_a_loop_and_leaves_out_empty_rows(codes):
    z = codes * torch.tensor([1.0, -1.0]).repeat(6)
    rows = [row for row in z.tolist() if any(row)]
    lengths = [(sum(abs(v) for v in row), math.sqrt(sum(v * v for v in row))) for row in rows]
    expected = np.mean([(math.sqrt(12) - one / two) / (math.sqrt(12) - 1) for one, two in lengths])
    assert metrics.hoyer(z) == pytest.approx(expected, rel=1e-6)
    assert len(rows) < 60
    assert math.isnan(metrics.hoyer(torch.zeros(3, 4)))


def test_expected_activation_equals_a_loop(codes):
    units = [[v / (math.sqrt(sum(w * w for w in row)) or 1) for v in row] for row in codes.tolist()]
    assert metrics.expected_activation(codes).tolist() == pytest.approx(np.mean(units, axis=0).tolist())


def test_sparsity_and_live_features_equal_a_loop(codes):
    active = is_active(codes)
    expected = np.mean([1 - sum(row) / len(row) for row in active])
    assert metrics.sparsity(codes) == pytest.approx(expected)
    assert metrics.live_features(codes).tolist() == [any(row[j] for row in active) for j in range(12)]


def test_correlation_equals_a_loop(codes):
    z = codes.double().numpy()
    live = [j for j in range(12) if any(row[j] for row in is_active(codes))]
    values = [
        abs(z[:, i] @ z[:, j]) / math.sqrt((z[:, i] @ z[:, i]) * (z[:, j] @ z[:, j]))
        for i in live
        for j in live
        if i != j
    ]
    assert metrics.correlation(codes) == pytest.approx(np.mean(values), rel=1e-5)


def test_effective_rank_equals_its_definition_by_svd(codes):
    for z in (codes, codes[:8]):  # tall and wide
        singular = np.linalg.svd(z.double().numpy(), compute_uv=False)
        share = singular[singular > 1e-12] / singular.sum()
        assert metrics.effective_rank(z) == pytest.approx(math.exp(-(share * np.log(share)).sum()), rel=1e-6)


def test_retrieval_equals_a_loop(codes, labels):
    z, y = codes.double(), labels.tolist()
    z = z + torch.rand(z.shape, generator=torch.Generator().manual_seed(3), dtype=z.dtype) / 50  # no ties
    units = (z / z.norm(dim=1, keepdim=True)).tolist()
    precision, average = [], []
    for i, query in enumerate(units):
        similarity = [(-sum(a * b for a, b in zip(query, other, strict=True)), j) for j, other in enumerate(units)]
        nearest = [j for _, j in sorted(similarity) if j != i][:10]
        hits = [y[j] == y[i] for j in nearest]
        precision.append(sum(hits) / 10)
        relevant = y.count(y[i]) - 1
        average.append(sum(sum(hits[: r + 1]) / (r + 1) for r in range(10) if hits[r]) / min(10, relevant))
    assert metrics.precision_at_k(z, labels) == pytest.approx(np.mean(precision))
    assert metrics.mean_average_precision(z, labels) == pytest.approx(np.mean(average))


def test_precision_with_ties_is_the_expectation_over_their_order():
    z = torch.zeros(5, 2)  # all samples are tied
    assert metrics.precision_at_k(z, [0, 0, 0, 1, 1], k=2) == pytest.approx((3 * 2 / 4 + 2 * 1 / 4) / 5)


def test_mean_average_precision_with_ties_is_the_expectation_over_their_order():
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.8, 0.6], [0.8, 0.6], [0.8, 0.6], [0.0, 1.0]]).double()
    labels = [0, 1, 0, 0, 1, 1, 0]
    similarity = (z @ z.T).tolist()
    expected = []
    for i in range(7):
        others = [j for j in range(7) if j != i]
        averages = []
        for order in itertools.permutations(others):
            ranked = sorted(order, key=lambda j: -round(similarity[i][j], 9))[:4]
            hits = [labels[j] == labels[i] for j in ranked]
            relevant = labels.count(labels[i]) - 1
            averages.append(sum(sum(hits[: r + 1]) / (r + 1) for r in range(4) if hits[r]) / min(4, relevant))
        expected.append(np.mean(averages))
    assert metrics.mean_average_precision(z, labels, k=4) == pytest.approx(np.mean(expected))


def test_all_zero_codes_have_defined_results():
    z = torch.zeros(20, 5)
    assert (metrics.sparsity(z), metrics.correlation(z), metrics.effective_rank(z)) == (1.0, 0.0, 0.0)
    result = metrics.class_consistency(z, np.arange(20) % 2)
    assert result.live == result.n_supported == 0
    assert math.isnan(result.value)


def test_very_large_and_very_small_codes_give_the_same_results(labels):
    z = torch.randn(60, 8, generator=torch.Generator().manual_seed(4)).relu()
    for metric in (metrics.sparsity, lambda z: metrics.precision_at_k(z, labels)):
        for scale in (1e30, 1e-30):
            assert metric(z * scale) == pytest.approx(metric(z), rel=1e-6)
            assert metric(sp.csr_array((z * scale).numpy())) == pytest.approx(metric(z), rel=1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    "metric",
    [
        metrics.sparsity,
        metrics.correlation,
        metrics.effective_rank,
        metrics.hoyer,
        metrics.expected_activation,
        lambda z: metrics.match(z, z),
        lambda z: metrics.sepin(z, z),
        lambda z: metrics.recall_at_k(z, z),
        lambda z: metrics.mutual_information_gap(z, {"a": np.arange(60) % 3}),
        lambda z: metrics.class_consistency(z, np.arange(60) % 3),
        lambda z: metrics.precision_at_k(z, np.arange(60) % 3),
        lambda z: metrics.mean_average_precision(z, np.arange(60) % 3),
    ],
)
def test_non_finite_codes_are_reported(metric, bad, codes):
    z = codes.clone()
    z[2, 1] = bad
    for kind in (z, z.numpy(), sp.csr_array(z.numpy())):
        with pytest.raises(ValueError, match="NaN or infinite"):
            metric(kind)


def test_duplicate_entries_of_a_sparse_matrix_are_summed():
    twice = sp.csr_array((np.array([1.0, -1.0, 1.0]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    assert metrics.sparsity(twice) == 0.5


def test_the_seed_determines_the_permutations(codes, labels):
    floors = {metrics.class_consistency(codes, labels, permutations=1, seed=s).floor for s in range(5)}
    assert len(floors) > 1


@pytest.mark.parametrize(
    "metric",
    [
        metrics.sparsity,
        metrics.correlation,
        metrics.effective_rank,
        metrics.hoyer,
        lambda z: metrics.activity(z).dense,
        lambda z: float(metrics.expected_activation(z)[2]),
        lambda z: float(metrics.match(z, z.T[:12].T).cosine.sum()),
        lambda z: float(metrics.agreement([z, abs(z), z])),
        lambda z: metrics.recall_at_k(z, abs(z), k=3),
        lambda z: metrics.sepin(z, abs(z), k=[3]).at[3],
        lambda z: float(metrics.mutual_information_gap(z, {"a": np.arange(60) % 3}, binning="zero-quantiles")),
        lambda z: metrics.class_consistency(z, np.arange(60) % 3).entropy,
        lambda z: float(metrics.class_consistency(z, np.arange(60) % 3)),
        lambda z: metrics.class_consistency(z, np.arange(60) % 3).floor,
        lambda z: metrics.precision_at_k(z, np.arange(60) % 3),
        lambda z: metrics.mean_average_precision(z, np.arange(60) % 3),
    ],
)
def test_numpy_and_sparse_input_give_the_same_number(metric, codes):
    expected = metric(codes)
    assert metric(codes.numpy()) == expected
    assert metric(sp.csr_array(codes.numpy())) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("z", "labels", "message"),
    [
        (torch.ones(4, 2, dtype=torch.int64), [0, 1, 0, 1], "z is torch.int64"),
        (torch.ones(4), [0, 1, 0, 1], r"z has.*\(4,\)"),
        (torch.ones(4, 2), None, "labels is None"),
        (torch.ones(4, 2), [0, 1], r"labels.*\(2,\).*\(4,\)"),
        (torch.ones(4, 2), [0.5, 1, 0, 1], "labels.*0.5"),
        ("codes.npy", [0], "z is str"),
        (sp.csr_array(np.ones((4, 2), int)), [0, 1, 0, 1], "z is int64"),
        (torch.ones(4, 2), np.zeros((4, 2), int), r"labels.*\(4, 2\)"),
    ],
)
def test_invalid_input_is_reported_by_argument(z, labels, message):
    with pytest.raises((TypeError, ValueError), match=message):
        metrics.class_consistency(z, labels)
    with pytest.raises((TypeError, ValueError), match=message):
        metrics.precision_at_k(z, labels, k=1)


def test_k_must_be_smaller_than_the_number_of_samples():
    with pytest.raises(ValueError, match=r"k is 4.*1 to 3"):
        metrics.precision_at_k(torch.ones(4, 2), [0, 1, 0, 1], k=4)
