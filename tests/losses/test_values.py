"""Every loss against plain Python loops, over dtypes, with gradcheck, and at the edges."""

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


def slow_info_nce(z1, z2, temperature=0.2):
    views = z1.tolist() + z2.tolist()
    n = len(z1)
    result = 0.0
    for i, view in enumerate(views):
        partner = (i + n) % (2 * n)
        weights = [math.exp(cosine(view, other) / temperature) for j, other in enumerate(views) if j != i]
        result -= math.log(math.exp(cosine(view, views[partner]) / temperature) / sum(weights))
    return result / (2 * n)


def slow_spectral(z1, z2):
    pairs = list(zip(z1.tolist(), z2.tolist(), strict=True))
    n = len(pairs)
    positive = sum(dot(a, b) for a, b in pairs) / n
    negatives = [dot(a, b) ** 2 for i in range(n) for j in range(n) if i != j for a in pairs[i] for b in pairs[j]]
    return -2 * positive + sum(negatives) / len(negatives)


def slow_multimodal_info_nce(a, b, temperature=0.07):
    rows_a, rows_b = a.tolist(), b.tolist()
    n = len(rows_a)
    result = 0.0
    for x, y in ((rows_a, rows_b), (rows_b, rows_a)):
        for i in range(n):
            weights = [math.exp(cosine(x[i], y[j]) / temperature) for j in range(n)]
            result -= math.log(weights[i] / sum(weights)) / (2 * n)
    return result


def slow_multimodal_spectral(a, b):
    rows_a, rows_b = a.tolist(), b.tolist()
    n = len(rows_a)
    positive = sum(dot(rows_a[i], rows_b[i]) for i in range(n)) / n
    negatives = [dot(rows_a[i], rows_b[j]) ** 2 for i in range(n) for j in range(n) if i != j]
    return -2 * positive + sum(negatives) / len(negatives)


LABELS = torch.tensor([0, 1, 0, 2, 1])  # class 2 has a single member: it has no positive
WEIGHT = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def slow_sup_con(z, temperature=0.2):
    rows, labels = z.tolist(), LABELS.tolist()
    per_row = []
    for i, row in enumerate(rows):
        positives = [j for j in range(len(rows)) if j != i and labels[j] == labels[i]]
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


def two(fast, slow):
    return (lambda z1, z2: fast(z1, z2)), (lambda z1, z2: slow(z1, z2))


def one(fast, slow):
    return (lambda z1, z2: fast(z1)), (lambda z1, z2: slow(z1))


CASES = {
    "info_nce": two(losses.info_nce, slow_info_nce),
    "info_nce in chunks": two(lambda a, b: losses.info_nce(a, b, chunk_rows=3), slow_info_nce),
    "spectral": two(losses.spectral, slow_spectral),
    "multimodal.info_nce": two(losses.multimodal.info_nce, slow_multimodal_info_nce),
    "multimodal.info_nce in chunks": two(
        lambda a, b: losses.multimodal.info_nce(a, b, chunk_rows=2), slow_multimodal_info_nce
    ),
    "multimodal.spectral": two(losses.multimodal.spectral, slow_multimodal_spectral),
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
CONTRASTIVE = [name for name in CASES if "cross_entropy" not in name]
COSINE = [name for name in CONTRASTIVE if "spectral" not in name]
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
@pytest.mark.parametrize("width", [WIDTH, 3])  # more features than rows and fewer: spectral has two forms
def test_equals_a_brute_force_loop(name, width):
    fast, slow = CASES[name]
    if "cross_entropy" in name and width != WIDTH:
        pytest.skip("the weight fixes the width")
    for seed in range(3):
        z1, z2 = features(seed, width=width)
        assert float(fast(z1, z2)) == pytest.approx(slow(z1, z2), rel=1e-12)


@every_loss
def test_gradcheck_in_float64(name):
    fast, _ = CASES[name]
    z1, z2 = (z + 0.1 for z in features())
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


@pytest.mark.parametrize("name", CONTRASTIVE)
@pytest.mark.parametrize("pairs", [5, 40])  # fewer rows than features, and more: spectral has two forms
def test_heavy_tailed_features_agree_with_float64_in_float32(name, pairs):
    if "sup_con" in name and pairs != PAIRS:
        pytest.skip("the labels fix the number of rows")
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
def test_lower_precision_agrees_with_float64_within_the_type(name, dtype, tolerance):
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
def test_finite_at_the_edges_with_a_sharp_temperature(name, dtype, inputs):
    loss = {
        "info_nce": losses.info_nce,
        "multimodal.info_nce": losses.multimodal.info_nce,
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
    if inputs != "tiny":  # the gradient of a direction is 1/length: out of range for the type's smallest numbers
        assert bool(grads.isfinite().all())


@pytest.mark.parametrize("name", ["info_nce", "multimodal.info_nce", "sup_con"])
def test_direction_is_all_that_counts_even_where_squares_overflow_or_vanish(name):
    fast, _ = CASES[name]
    z1, z2 = (z.float() for z in features())
    expected = float(fast(z1, z2))
    for scale in (1e30, 1e-30):
        assert float(fast(z1 * scale, z2 * scale)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", CONTRASTIVE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_an_all_zero_row_keeps_a_gradient_of_its_neighbours_size(name, dtype, scale):
    if name not in COSINE and scale > 1:
        pytest.skip("the spectral gradient grows with the cube of the scale and leaves float16's range")
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
        assert float(lengths[0]) > 0.1 * typical  # and so the row can come back


@pytest.mark.parametrize("name", CONTRASTIVE)
def test_all_rows_zero_is_finite(name):
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
def test_autocast_does_not_lower_the_precision_inside(name):
    fast, _ = CASES[name]
    z1, z2 = (z.float() for z in features())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = fast(z1, z2)
    assert inside.dtype == torch.float32
    assert float(inside) == float(fast(z1, z2))


def test_a_temperature_can_be_learnt():
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


def test_sup_con_without_any_positive_does_not_hide_what_is_not_finite():
    z, _ = features()
    z[1, 2] = float("nan")
    assert math.isnan(losses.supervised.sup_con(z, torch.arange(PAIRS)))


def test_no_label_is_left_out_in_silence():
    z, _ = features()
    with pytest.raises((RuntimeError, IndexError)):
        losses.supervised.cross_entropy(z, torch.tensor([0, 1, 0, 2, -100]), WEIGHT)


def test_sup_con_without_any_positive_is_zero():
    z, _ = features()
    value, grads = value_and_gradients(lambda a, b: losses.supervised.sup_con(a, torch.arange(PAIRS)), z, z)
    assert float(value) == 0
    assert bool((grads == 0).all())
