"""Every loss against plain Python loops, over dtypes, with gradcheck, and for extreme inputs."""

import math

import pytest
import torch
from torch import Tensor

from nonneg import losses
from nonneg.rectify import rep_relu

PAIRS, WIDTH = 5, 7


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def cosine(a, b):
    lengths = math.sqrt(dot(a, a)) * math.sqrt(dot(b, b))
    return dot(a, b) / lengths if lengths else 0.0


def slow_info_nce(z1, z2, temperature=0.2, negatives=(), related=None):
    views = z1.tolist() + z2.tolist()
    n = len(z1)
    related = list(range(n) if related is None else related) * 2
    result = 0.0
    for i, view in enumerate(views):
        partner = (i + n) % (2 * n)
        others = [other for j, other in enumerate(views) if j == partner or related[j] != related[i]]
        others += [row.tolist() for row in negatives]
        weights = [math.exp(cosine(view, other) / temperature) for other in others]
        result -= math.log(math.exp(cosine(view, views[partner]) / temperature) / sum(weights))
    return result / (2 * n)


def slow_spectral(z1, z2, related=None):
    pairs = list(zip(z1.tolist(), z2.tolist(), strict=True))
    n = len(pairs)
    related = range(n) if related is None else related
    positive = sum(dot(a, b) for a, b in pairs) / n
    apart = [(i, j) for i in range(n) for j in range(n) if related[i] != related[j]]
    negatives = [dot(a, b) ** 2 for i, j in apart for a in pairs[i] for b in pairs[j]]
    return -2 * positive + sum(negatives) / len(negatives)


def slow_multimodal_info_nce(a, b, temperature=0.07, related=None):
    rows_a, rows_b = a.tolist(), b.tolist()
    n = len(rows_a)
    related = range(n) if related is None else related
    result = 0.0
    for x, y in ((rows_a, rows_b), (rows_b, rows_a)):
        for i in range(n):
            others = [j for j in range(n) if j == i or related[i] != related[j]]
            weights = {j: math.exp(cosine(x[i], y[j]) / temperature) for j in others}
            result -= math.log(weights[i] / sum(weights.values())) / (2 * n)
    return result


def slow_multimodal_spectral(a, b, related=None):
    rows_a, rows_b = a.tolist(), b.tolist()
    n = len(rows_a)
    related = range(n) if related is None else related
    positive = sum(dot(rows_a[i], rows_b[i]) for i in range(n)) / n
    negatives = [dot(rows_a[i], rows_b[j]) ** 2 for i in range(n) for j in range(n) if related[i] != related[j]]
    return -2 * positive + sum(negatives) / len(negatives)


def groups_for(z):
    return torch.arange(len(z)) // 2 % 3  # of two and more rows


def centred(column):
    return [x - sum(column) / len(column) for x in column]


def slow_barlow_twins(z1, z2, redundancy=0.005):
    columns1, columns2 = (list(map(centred, z.T.tolist())) for z in (z1, z2))
    result = 0.0
    for i, a in enumerate(columns1):
        for j, b in enumerate(columns2):
            correlation = cosine(a, b)
            result += (1 - correlation) ** 2 if i == j else redundancy * correlation**2
    return result


def slow_vicreg(z1, z2, similarity=25.0, variance=25.0, covariance=1.0):
    n, d = z1.shape
    rows = zip(z1.tolist(), z2.tolist(), strict=True)
    result = similarity * sum((x - y) ** 2 for a, b in rows for x, y in zip(a, b, strict=True)) / (n * d)
    for z in (z1, z2):
        columns = list(map(centred, z.T.tolist()))
        for i, a in enumerate(columns):
            result += variance / d * max(0.0, 1 - math.sqrt(dot(a, a) / (n - 1) + 1e-4))
            result += covariance / d * sum((dot(a, b) / (n - 1)) ** 2 for j, b in enumerate(columns) if j != i)
    return result


LABELS = torch.tensor([0, 1, 0, 2, 1])  # class 2 has a single member, which has no positives
QUEUE = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(6), dtype=torch.float64).relu()
QUEUE[2] = 0  # a queue of rectified features may hold all-zero rows
WEIGHT = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def slow_sup_con(z, labels=LABELS, temperature=0.2):
    rows, labels = z.tolist(), labels.tolist()
    per_row = []
    for i, row in enumerate(rows):
        positives = [j for j in range(len(rows)) if j != i and labels[j] == labels[i] >= 0]
        if not positives:
            continue
        bottom = sum(math.exp(cosine(row, rows[j]) / temperature) for j in range(len(rows)) if j != i)
        logs = [math.log(math.exp(cosine(row, rows[p]) / temperature) / bottom) for p in positives]
        per_row.append(-sum(logs) / len(logs))
    return sum(per_row) / len(per_row)


def slow_cross_entropy(z, rectify):
    result = 0.0
    for row, label in zip(z.tolist(), LABELS.tolist(), strict=True):
        logits = [dot(row, [max(v, 0.0) if rectify else v for v in w]) for w in WEIGHT.tolist()]
        result -= math.log(math.exp(logits[label]) / sum(map(math.exp, logits)))
    return result / len(z)


def queue_for(z):
    """Four further negatives of the width and dtype of `z`."""
    return QUEUE.repeat(1, -(-z.shape[1] // WIDTH))[:, : z.shape[1]].to(z.dtype)


def one(fast, slow):
    return (lambda z1, z2: fast(z1)), (lambda z1, z2: slow(z1))


CASES = {
    "info_nce": (losses.info_nce, slow_info_nce),
    "info_nce in chunks": (lambda a, b: losses.info_nce(a, b, chunk_rows=3), slow_info_nce),
    "info_nce with a queue": (
        lambda a, b: losses.info_nce(a, b, negatives=queue_for(a)),
        lambda a, b: slow_info_nce(a, b, negatives=queue_for(a)),
    ),
    "info_nce with a queue in chunks": (
        lambda a, b: losses.info_nce(a, b, negatives=queue_for(a), chunk_rows=3),
        lambda a, b: slow_info_nce(a, b, negatives=queue_for(a)),
    ),
    "info_nce with groups": (
        lambda a, b: losses.info_nce(a, b, related=groups_for(a)),
        lambda a, b: slow_info_nce(a, b, related=groups_for(a).tolist()),
    ),
    "info_nce with groups and a queue in chunks": (
        lambda a, b: losses.info_nce(a, b, related=groups_for(a), negatives=queue_for(a), chunk_rows=3),
        lambda a, b: slow_info_nce(a, b, negatives=queue_for(a), related=groups_for(a).tolist()),
    ),
    "spectral": (losses.spectral, slow_spectral),
    "spectral with groups": (
        lambda a, b: losses.spectral(a, b, related=groups_for(a)),
        lambda a, b: slow_spectral(a, b, groups_for(a).tolist()),
    ),
    "barlow_twins": (losses.barlow_twins, slow_barlow_twins),
    "vicreg": (losses.vicreg, slow_vicreg),
    "multimodal.info_nce": (losses.multimodal.info_nce, slow_multimodal_info_nce),
    "multimodal.info_nce in chunks": (
        lambda a, b: losses.multimodal.info_nce(a, b, chunk_rows=2),
        slow_multimodal_info_nce,
    ),
    "multimodal.spectral": (losses.multimodal.spectral, slow_multimodal_spectral),
    "multimodal.info_nce with groups": (
        lambda a, b: losses.multimodal.info_nce(a, b, related=groups_for(a)),
        lambda a, b: slow_multimodal_info_nce(a, b, related=groups_for(a).tolist()),
    ),
    "multimodal.info_nce with groups in chunks": (
        lambda a, b: losses.multimodal.info_nce(a, b, related=groups_for(a), chunk_rows=2),
        lambda a, b: slow_multimodal_info_nce(a, b, related=groups_for(a).tolist()),
    ),
    "multimodal.spectral with groups": (
        lambda a, b: losses.multimodal.spectral(a, b, related=groups_for(a)),
        lambda a, b: slow_multimodal_spectral(a, b, groups_for(a).tolist()),
    ),
    "sup_con": one(lambda z: losses.supervised.sup_con(z, LABELS), slow_sup_con),
    "sup_con in chunks": one(lambda z: losses.supervised.sup_con(z, LABELS, chunk_rows=2), slow_sup_con),
    "cross_entropy": one(
        lambda z: losses.supervised.cross_entropy(z, LABELS, WEIGHT.to(z.dtype)), lambda z: slow_cross_entropy(z, True)
    ),
    "cross_entropy, signed weight": one(
        lambda z: losses.supervised.cross_entropy(z, LABELS, WEIGHT.to(z.dtype), rectify_weight=False),
        lambda z: slow_cross_entropy(z, False),
    ),
}
FEATURES_ONLY = [name for name in CASES if "cross_entropy" not in name]
COSINE = [name for name in FEATURES_ONLY if "info_nce" in name or "sup_con" in name]
every_loss = pytest.mark.parametrize("name", CASES)


def features(seed: int = 0, pairs: int = PAIRS, width: int = WIDTH) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(2, pairs, width, generator=generator, dtype=torch.float64).relu()
    return z[0], z[1]


def value_and_gradients(loss, z1, z2):
    z1, z2 = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    value = loss(z1, z2)
    grads = torch.autograd.grad(value, (z1, z2), allow_unused=True)
    return value.detach(), torch.cat([torch.zeros_like(z1) if g is None else g for g in grads])


@every_loss
@pytest.mark.parametrize("width", [WIDTH, 3])  # more features than rows, and fewer: spectral has two forms
def test_equals_a_brute_force_loop(name, width):
    fast, slow = CASES[name]
    if "cross_entropy" in name and width != WIDTH:
        pytest.skip("the weight has a fixed width")
    for seed in range(3):
        z1, z2 = features(seed, width=width)
        assert float(fast(z1, z2)) == pytest.approx(slow(z1, z2), rel=1e-12)


@every_loss
def test_gradcheck_in_float64(name):
    fast, _ = CASES[name]
    z1, z2 = (z + 0.1 for z in features(seed=1))  # no constant feature, where a correlation has no derivative
    assert torch.autograd.gradcheck(fast, (z1.requires_grad_(), z2.requires_grad_()))


@every_loss
def test_second_derivatives_in_float64(name):
    fast, _ = CASES[name]
    z1, z2 = (z[:, :4] + 0.1 for z in features()) if "cross_entropy" not in name else (z + 0.1 for z in features())
    assert torch.autograd.gradgradcheck(fast, (z1.requires_grad_(), z2.requires_grad_()))


@pytest.mark.parametrize("rectify_weight", [True, False])
def test_gradcheck_of_the_weight(rectify_weight):
    z, _ = features()
    weight = WEIGHT.clone().requires_grad_()
    loss = losses.supervised.cross_entropy
    assert torch.autograd.gradcheck(lambda z, w: loss(z, LABELS, w, rectify_weight), (z.requires_grad_(), weight))


@pytest.mark.parametrize("name", FEATURES_ONLY)
@pytest.mark.parametrize("pairs", [5, 40])  # fewer rows than features, and more: spectral has two forms
def test_heavy_tailed_features_agree_with_float64_in_float32(name, pairs):
    if "sup_con" in name and pairs != PAIRS:
        pytest.skip("the number of labels is fixed")
    fast, _ = CASES[name]
    generator = torch.Generator().manual_seed(0)
    z1, z2 = (2 * torch.randn(2, pairs, 24, generator=generator)).exp()
    value, grads = value_and_gradients(fast, z1, z2)
    exact, exact_grads = value_and_gradients(fast, z1.double(), z2.double())
    assert float(value) == pytest.approx(float(exact), rel=1e-5)
    torch.testing.assert_close(grads.double(), exact_grads, rtol=0, atol=1e-5 * float(exact_grads.abs().max()))


@every_loss
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2**-7), (torch.float16, 2**-10)]
)
def test_lower_precision_agrees_with_float64_within_rounding(name, dtype, tolerance):
    fast, _ = CASES[name]
    z1, z2 = (z.to(dtype) for z in features())
    value, grads = value_and_gradients(fast, z1, z2)
    exact, exact_grads = value_and_gradients(fast, z1.double(), z2.double())
    assert value.dtype == torch.float32
    assert float(value) == pytest.approx(float(exact), rel=tolerance, abs=tolerance)
    assert grads.dtype == dtype
    scale = float(exact_grads.abs().max())
    torch.testing.assert_close(grads.double(), exact_grads, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("name", COSINE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("inputs", ["random", "identical rows", "two pairs", "huge", "tiny"])
def test_extreme_inputs_with_a_low_temperature_give_finite_values(name, dtype, inputs):
    loss = {
        "info_nce": losses.info_nce,
        "info_nce with a queue": lambda a, b, **kw: losses.info_nce(a, b, negatives=queue_for(a), **kw),
        "info_nce with groups": lambda a, b, **kw: losses.info_nce(a, b, related=groups_for(a), **kw),
        "info_nce with groups and a queue": lambda a, b, **kw: losses.info_nce(
            a, b, negatives=queue_for(a), related=groups_for(a), **kw
        ),
        "multimodal.info_nce": losses.multimodal.info_nce,
        "multimodal.info_nce with groups": lambda a, b, **kw: losses.multimodal.info_nce(
            a, b, related=groups_for(a), **kw
        ),
        "sup_con": lambda a, b, **kw: losses.supervised.sup_con(a, torch.arange(len(a)) // 2, **kw),
    }[name.removesuffix(" in chunks")]
    chunk = 2 if "chunks" in name else None
    z1, z2 = features(pairs=2 if inputs == "two pairs" else PAIRS)
    if inputs == "identical rows":
        z1 = z2 = z1[:1].expand_as(z1)
    scale = {"huge": torch.finfo(dtype).max / 16, "tiny": torch.finfo(dtype).tiny * 16}.get(inputs, 1.0)
    z1, z2 = (z1 * scale).to(dtype), (z2 * scale).to(dtype)
    value, grads = value_and_gradients(lambda a, b: loss(a, b, temperature=0.01, chunk_rows=chunk), z1, z2)
    assert math.isfinite(value)
    if inputs != "tiny":  # the gradient grows as 1/length and exceeds the range of the dtype
        assert bool(grads.isfinite().all())


@pytest.mark.parametrize("name", ["info_nce", "multimodal.info_nce", "sup_con", "barlow_twins"])
def test_scale_does_not_matter_even_where_squares_overflow_or_vanish(name):
    fast, _ = CASES[name]
    z1, z2 = (z.float() for z in features())
    expected = float(fast(z1, z2))
    for scale in (1e30, 1e-30):
        assert float(fast(z1 * scale, z2 * scale)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", FEATURES_ONLY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_the_gradient_of_an_all_zero_row_is_as_large_as_that_of_other_rows(name, dtype, scale):
    if name not in COSINE and scale > 1:
        pytest.skip("the gradient grows with the cube of the scale and exceeds float16's range")
    fast, slow = CASES[name]
    pre1, pre2 = (torch.randn(PAIRS, WIDTH, generator=torch.Generator().manual_seed(s)) for s in (3, 4))
    pre1[0] = -pre1[0].abs() - 0.1  # rectified, this row is all zero
    pre1, pre2 = pre1.to(dtype), pre2.to(dtype)

    def through_rep_relu(a, b):
        return fast(rep_relu(a) * scale, rep_relu(b) * scale)

    value, grads = value_and_gradients(through_rep_relu, pre1, pre2)
    assert float(value) == pytest.approx(slow(pre1.relu() * scale, pre2.relu() * scale), rel=1e-2)
    lengths = grads.float().norm(dim=1)
    assert bool(grads.isfinite().all())
    typical = float(lengths[1:][lengths[1:] > 0].median())
    assert float(lengths[0]) < 10 * typical
    if name in COSINE:
        assert float(lengths[0]) > 0.1 * typical  # so the row can become active again


@pytest.mark.parametrize("name", FEATURES_ONLY)
def test_all_zero_features_give_finite_values(name):
    fast, _ = CASES[name]
    z = torch.zeros(PAIRS, WIDTH)
    value, grads = value_and_gradients(fast, z, z)
    assert math.isfinite(value)
    assert bool(grads.isfinite().all())


@every_loss
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_non_finite_features_give_a_non_finite_loss(name, bad):
    fast, _ = CASES[name]
    z1, z2 = features()
    z1[1, 2] = bad
    assert not math.isfinite(fast(z1, z2))


@every_loss
def test_autocast_does_not_change_the_precision(name):
    fast, _ = CASES[name]
    z1, z2 = (z.float() for z in features())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = fast(z1, z2)
    assert inside.dtype == torch.float32
    assert float(inside) == float(fast(z1, z2))


def test_the_temperature_has_a_gradient():
    z1, z2 = features()
    temperature = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: losses.info_nce(z1, z2, t), (temperature,))
    assert torch.autograd.gradcheck(lambda t: losses.multimodal.info_nce(z1, z2, t), (temperature,))
    assert torch.autograd.gradcheck(lambda t: losses.supervised.sup_con(z1, LABELS, t), (temperature,))
    shaped = torch.tensor([[0.3]])
    assert float(losses.info_nce(z1.float(), z2.float(), shaped.double())) == pytest.approx(
        float(losses.info_nce(z1, z2, 0.3)), rel=1e-5
    )


@every_loss
def test_compiles_into_one_graph(name):
    fast, _ = CASES[name]
    z1, z2 = (z.float() for z in features())
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    value, grads = value_and_gradients(compiled, z1, z2)
    expected, expected_grads = value_and_gradients(fast, z1, z2)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grads, expected_grads)


def test_sup_con_without_positives_still_propagates_nan():
    z, _ = features()
    z[1, 2] = float("nan")
    assert math.isnan(losses.supervised.sup_con(z, torch.arange(PAIRS)))


def test_cross_entropy_does_not_silently_skip_the_label_minus_100():
    z, _ = features()
    with pytest.raises((RuntimeError, IndexError)):
        losses.supervised.cross_entropy(z, torch.tensor([0, 1, 0, 2, -100]), WEIGHT)


def test_sup_con_without_positives_is_zero():
    z, _ = features()
    value, grads = value_and_gradients(lambda a, b: losses.supervised.sup_con(a, torch.arange(PAIRS)), z, z)
    assert float(value) == 0
    assert bool((grads == 0).all())


def test_sup_con_uses_unlabelled_rows_only_as_negatives():
    z, _ = features()
    labels = torch.tensor([0, -1, 0, -1, -7])
    expected = slow_sup_con(z, labels)
    assert float(losses.supervised.sup_con(z, labels)) == pytest.approx(expected, rel=1e-12)
    assert float(losses.supervised.sup_con(z, labels, chunk_rows=2)) == pytest.approx(expected, rel=1e-12)
    assert expected > slow_sup_con(z[[0, 2]], labels[[0, 2]])  # they do count as negatives


def test_a_single_pair_suffices_with_a_queue():
    z1, z2 = features(pairs=1)
    assert float(losses.info_nce(z1, z2, negatives=QUEUE)) == pytest.approx(slow_info_nce(z1, z2, negatives=QUEUE))


def test_a_queue_may_have_another_dtype():
    z1, z2 = features()
    expected = float(losses.info_nce(z1.float(), z2.float(), negatives=QUEUE.float()))
    value = losses.info_nce(z1.float(), z2.float(), negatives=QUEUE)
    assert value.dtype == torch.float32
    assert float(value) == pytest.approx(expected, rel=1e-6)


def test_gradcheck_of_a_queue():
    z1, z2 = features()
    queue = (QUEUE + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(lambda q: losses.info_nce(z1, z2, negatives=q), (queue,))


@pytest.mark.parametrize("weight", [0.0, 0.3, 2])
def test_the_weights_of_decorrelation_losses_scale_their_terms(weight):
    z1, z2 = features(seed=1)
    assert float(losses.barlow_twins(z1, z2, weight)) == pytest.approx(slow_barlow_twins(z1, z2, weight), rel=1e-12)
    for name in ("similarity", "variance", "covariance"):
        expected = slow_vicreg(z1, z2, **{name: weight})
        assert float(losses.vicreg(z1, z2, **{name: weight})) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e4])  # the mean of many 0.1 is not exactly 0.1
def test_constant_features_are_uncorrelated_and_have_finite_gradients(dtype, constant):
    generator = torch.Generator().manual_seed(0)
    z1, z2 = torch.rand(2, 1000, 4, generator=generator).to(dtype)
    z1[:, 0] = constant
    z2[:, :2] = constant
    value, grads = value_and_gradients(lambda a, b: losses.barlow_twins(a, b, redundancy=0), z1, z2)
    rest = losses.barlow_twins(z1[:, 2:], z2[:, 2:], redundancy=0)
    assert float(value) == pytest.approx(2 + float(rest), rel=1e-5)
    assert bool(grads.isfinite().all())
    value, grads = value_and_gradients(losses.vicreg, z1, z2)
    assert math.isfinite(value)
    assert bool(grads.isfinite().all())


@pytest.mark.parametrize("loss", [losses.barlow_twins, lambda a, b: losses.vicreg(a, b, similarity=0)])
def test_a_large_common_offset_does_not_change_the_statistics(loss):
    z1, z2 = (torch.randint(0, 9, (50, 3), generator=torch.Generator().manual_seed(s)).float() for s in (1, 2))
    assert float(loss(z1 + 2**20, z2 + 2**20)) == pytest.approx(float(loss(z1, z2)), rel=1e-5)
