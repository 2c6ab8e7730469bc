"""The batch norm of compiled training steps is torch's."""

import pytest
import torch
from torch import nn

from nonneg.models._norm import _compiled, normed


def outcome(norm, work, x):
    x = x.clone().requires_grad_()
    out = work(x)
    (out * torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
    return out.detach(), x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_output_gradients_and_running_figures_are_torchs(relu, offset):
    torch.manual_seed(0)
    x = torch.randn(8, 5, 6, 4) * torch.arange(1, 6.0)[:, None, None] + offset
    norms = [nn.BatchNorm2d(5) for _ in range(2)]
    for norm in norms:
        norm.weight.data = torch.tensor([0.5, 1.0, -1.0, 2.0, 3.0])
        norm.bias.data = torch.tensor([0.0, 0.3, -0.3, 1.0, -1.0])
    ours, theirs = norms
    for _ in range(3):  # the running mean, about which the sums are taken, comes nearer
        expected = outcome(theirs, lambda x: normed(theirs, x, relu), x)
        found = outcome(ours, lambda x: _compiled(ours, x, relu), x)
    for mine, known in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, known, rtol=1e-3, atol=2e-4 * float(known.abs().max()))
    assert ours.num_batches_tracked == 3


def test_a_constant_channel_is_no_trouble():
    norm = nn.BatchNorm2d(2)
    out = _compiled(norm, torch.full((4, 2, 3, 3), 7.0, requires_grad=True), relu=True)
    out.sum().backward()
    assert bool(out.isfinite().all()) and bool(norm.weight.grad.isfinite().all())


def test_only_torchs_own_norm_in_a_compiled_step_is_replaced():
    norm = nn.BatchNorm2d(3)
    x = torch.randn(4, 3, 2, 2)
    torch.testing.assert_close(normed(norm.eval(), x), norm(x), rtol=0, atol=0)
    torch.testing.assert_close(normed(nn.Identity(), x, relu=True), x.clone().relu(), rtol=0, atol=0)
