"""SEPIN against naive recomputation: one feature set to zero at a time."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from nonneg import metrics
from nonneg.metrics import _leave_one_out


def dense_signed():
    generator = torch.Generator().manual_seed(0)
    z1 = torch.randn(100, 24, generator=generator)
    return z1, z1 + 0.5 * torch.randn(100, 24, generator=generator)


def sparse_non_negative():
    z1, z2 = ((z - 1).relu() for z in dense_signed())
    z1[3], z2[4] = 0, 0  # empty rows
    z1[5], z2[6] = 0, 0
    z1[5, 2] = z2[6, 2] = z2[5, 2] = 1.5  # rows that are empty without their only feature
    z1[:, 7], z2[:, 7] = 0, 0  # a dead feature
    z1[:, 8] = 0  # dead in one view
    return z1, z2


CODES = {"dense, signed": dense_signed, "sparse, non-negative": sparse_non_negative}


def unit(z):
    length = z.norm(dim=1, keepdim=True)
    return torch.where(length > 1e-9, z / length, 0)


def naive(z1, z2, temperature, renormalise):
    """Return Δ, `(anchors, features)`."""
    z1, z2 = unit(z1.double()), unit(z2.double())

    def loss(a, b):
        return F.cross_entropy(a @ b.T / temperature, torch.arange(len(a)), reduction="none")

    gains = []
    for i in range(z1.shape[1]):
        a, b = z1.clone(), z2.clone()
        a[:, i], b[:, i] = 0, 0
        gains.append((loss(unit(a), unit(b)) if renormalise else loss(a, b)) - loss(z1, z2))
    return torch.stack(gains, dim=1)


@pytest.mark.parametrize("temperature", [0.2, 0.01, 0.001])
@pytest.mark.parametrize("renormalise", [True, False], ids=["renormalised", "not renormalised"])
@pytest.mark.parametrize("kind", CODES)
def test_every_feature_equals_naive_recomputation(kind, renormalise, temperature):
    z1, z2 = CODES[kind]()
    expected = naive(z1, z2, temperature, renormalise)
    result = metrics.sepin(z1, z2, temperature=temperature, renormalise=renormalise)
    assert float((result.per_feature - expected.mean(0)).abs().max()) < 1e-6
    given = sp.csr_array(z1.numpy()), sp.csr_array(z2.numpy())
    again = metrics.sepin(*given, temperature=temperature, renormalise=renormalise)
    assert float((again.per_feature - expected.mean(0)).abs().max()) < 1e-6


@pytest.mark.parametrize("renormalise", [True, False], ids=["renormalised", "not renormalised"])
@pytest.mark.parametrize("kind", CODES)
def test_the_gpu_implementation_equals_naive_recomputation(kind, renormalise):
    z1, z2 = CODES[kind]()
    found = _leave_one_out._on_device(
        unit(z1.double()), unit(z2.double()), 0.2, renormalise, entries=7 * 100
    )  # several blocks of anchors
    assert float((found - naive(z1, z2, 0.2, renormalise)).abs().max()) < 1e-6


def test_dead_features_carry_no_information():
    z1, z2 = sparse_non_negative()
    assert float(metrics.sepin(z1, z2).per_feature[7]) == 0.0


def test_the_best_features_are_averaged_with_a_standard_error_over_anchors():
    z1, z2 = sparse_non_negative()
    gains = naive(z1, z2, 0.2, True)
    result = metrics.sepin(z1, z2, k=(1, 5, 100, None))
    order = gains.mean(0).argsort(descending=True)
    for k, count in ((1, 1), (5, 5), (100, 24), (None, 24)):
        each = gains[:, order[:count]].mean(1).numpy()
        assert result.at[k] == pytest.approx(each.mean())
        assert result.standard_error[k] == pytest.approx(each.std(ddof=1) / math.sqrt(100))


def test_features_can_be_ranked_by_expected_activation():
    z1, z2 = sparse_non_negative()
    activation = metrics.expected_activation(torch.cat((z1, z2)))
    result = metrics.sepin(z1, z2, k=[3], ranking="expected_activation")
    assert result.at[3] == pytest.approx(float(result.per_feature[activation.topk(3).indices].mean()))
    assert result.at[3] < metrics.sepin(z1, z2, k=[3]).at[3]


@pytest.mark.parametrize("kind", [lambda z: z, lambda z: sp.coo_array(z.numpy())], ids=["dense", "sparse"])
def test_fewer_negatives_divide_the_samples_into_groups(kind):
    z1, z2 = sparse_non_negative()
    result = metrics.sepin(kind(z1), kind(z2), k=[None], negatives=15)
    gains = torch.cat([naive(z1[rows], z2[rows], 0.2, True) for rows in torch.arange(96).split(16)])
    assert float((result.per_feature - gains.mean(0)).abs().max()) < 1e-6
    assert result.standard_error[None] == pytest.approx(gains.mean(1).std().item() / math.sqrt(96), rel=1e-4)
    assert "15 negatives" in result.variant
    whole, same = metrics.sepin(z1, z2), metrics.sepin(z1, z2, negatives=99)
    assert torch.equal(whole.per_feature, same.per_feature)


def test_scale_multiplies_all_results():
    z1, z2 = sparse_non_negative()
    one, hundred = (metrics.sepin(z1, z2, k=[2], scale=scale) for scale in (1, 100))
    assert hundred.at[2] == pytest.approx(100 * one.at[2])
    assert hundred.standard_error[2] == pytest.approx(100 * one.standard_error[2])


def test_the_variant_states_every_choice():
    z1, z2 = sparse_non_negative()
    variant = metrics.sepin(
        z1, z2, temperature=0.5, renormalise=False, ranking="expected_activation", scale=100
    ).variant
    for part in ("99 negatives", "temperature 0.5", "not renormalised", "expected activation", "scale 100"):
        assert part in variant


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((3, 2)), np.ones((3, 4))), r"z1.*\(3, 2\).*z2 \(3, 4\)"),
        ((np.ones((1, 2)), np.ones((1, 2))), "1 sample"),
        ((np.ones((3, 2)), np.ones((3, 2)), (0,)), "k is"),
        ((np.ones((3, 2)), np.ones((3, 2)), (1,), 0.0), "temperature is 0.0"),
        ((np.ones((3, 2)), np.ones((3, 2)), (1,), 0.2, True, "size"), "ranking is 'size'"),
        ((np.ones((3, 2)), np.ones((3, 2)), (1,), 0.2, True, "information", 1.0, 3), "negatives is 3"),
    ],
)
def test_invalid_input_is_reported_by_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.sepin(*arguments)
