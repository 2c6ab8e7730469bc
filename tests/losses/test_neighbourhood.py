import math

import pytest
import torch

from nonneg import losses


def test_it_equals_the_mean_cross_entropy_of_the_rows():
    torch.manual_seed(0)
    z = torch.randn(6, 4, dtype=torch.float64).relu()
    target = torch.rand(6, 6, dtype=torch.float64).fill_diagonal_(0)
    target /= target.sum(1, keepdim=True)
    expected = 0.0
    for i in range(6):
        similarities = [
            float(torch.cosine_similarity(z[i], z[j], dim=0)) / 0.3 if z[i].any() and z[j].any() else 0.0
            for j in range(6)
        ]
        total = math.log(sum(math.exp(s) for j, s in enumerate(similarities) if j != i))
        expected -= sum(float(target[i, j]) * (similarities[j] - total) for j in range(6) if j != i) / 6
    assert float(losses.neighbourhood(z, target, 0.3)) == pytest.approx(expected, rel=1e-10)


def test_one_positive_per_row_equals_info_nce():
    z1, z2 = torch.rand(5, 8), torch.rand(5, 8)
    partner = torch.eye(10)[[*range(5, 10), *range(5)]]
    ours = losses.neighbourhood(torch.cat((z1, z2)), partner, 0.2)
    torch.testing.assert_close(ours, losses.info_nce(z1, z2, 0.2))


def test_gradients_are_exact_and_finite_for_all_zero_rows():
    z = torch.rand(4, 3, dtype=torch.float64)
    z[1] = 0
    z.requires_grad_()
    target = torch.full((4, 4), 1 / 3, dtype=torch.float64).fill_diagonal_(0)
    losses.neighbourhood(z, target).backward()
    assert bool(z.grad.isfinite().all())
    rest = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: losses.neighbourhood(z, target, 0.5), rest)


def test_invalid_targets_and_batches_are_reported():
    with pytest.raises(ValueError, match=r"target.*\(3, 3\)"):
        losses.neighbourhood(torch.rand(4, 3), torch.rand(3, 3))
    with pytest.raises(ValueError, match="batch has 1 row"):
        losses.neighbourhood(torch.rand(1, 3), torch.rand(1, 1))
