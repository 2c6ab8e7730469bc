import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nonneg.modalities.images.encoders.norm import by_sums, normed

SHAPES = [(4, 64, 6, 5), (3, 12, 7, 7), (2, 8, 1, 1)]


def layer(channels):
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(channels)
    for given in (norm.weight, norm.bias, norm.running_mean):
        nn.init.normal_(given, 1.0)
    return norm


def images(shape, dtype=torch.float32):
    x = 3 * torch.randn(shape, generator=torch.Generator().manual_seed(0)) + 2
    return x.to(dtype).contiguous(memory_format=torch.channels_last)


def run(forward, norm, x):
    """The output, the gradients of all inputs, and the running statistics afterwards."""
    norm, x = copy.deepcopy(norm), x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    out = forward(norm, x)
    out.float().mul(torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
    return [out.detach(), x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var]


@pytest.mark.parametrize("relu", [False, True], ids=["", "relu"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_our_sums_give_the_result_and_gradients_of_torchs_batch_norm(shape, relu):
    norm, x = layer(shape[1]), images(shape)
    ours = run(lambda norm, x: by_sums(norm, x, relu), norm, x)
    theirs = run(lambda norm, x: F.relu(norm(x)) if relu else norm(x), norm, x)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_in_bf16_they_are_as_close_to_float32_as_torchs():
    norm, x = layer(64), images((8, 64, 6, 5), torch.bfloat16)
    exact = run(lambda norm, x: F.relu(norm(x)), norm, x.float())
    theirs = run(lambda norm, x: F.relu(norm(x)), norm, x)
    ours = run(lambda norm, x: by_sums(norm, x, True), norm, x)
    assert ours[0].dtype == ours[1].dtype == torch.bfloat16
    for a, b, c in zip(ours, theirs, exact, strict=True):
        assert float((a - c).norm()) <= 1.1 * float((b - c).norm()) + 1e-6 * float(c.norm())


def test_batches_are_counted():
    norm = layer(8)
    by_sums(norm, images((2, 8, 3, 3)), False)
    by_sums(norm, images((2, 8, 3, 3)), True)
    assert int(norm.num_batches_tracked) == 2


def test_the_operations_are_registered_correctly():
    norm, x = layer(8), images((2, 8, 3, 3))
    running = (norm.running_mean, norm.running_var, norm.num_batches_tracked)
    arguments = (x, norm.weight.detach(), norm.bias.detach(), *running, 0.1, 1e-5)
    torch.library.opcheck(torch.ops.nonneg.moments.default, arguments)
    torch.library.opcheck(torch.ops.nonneg.slopes.default, (x, x, torch.ops.nonneg.moments(*arguments), True))


class AnotherNorm(nn.BatchNorm2d):
    pass


@pytest.mark.parametrize(
    "change",
    [
        lambda norm, x: (norm, x),
        lambda norm, x: (norm.eval(), x),
        lambda norm, x: (nn.BatchNorm2d(8, affine=False), x),
        lambda norm, x: (nn.BatchNorm2d(8, track_running_stats=False), x),
        lambda norm, x: (AnotherNorm(8), x),
        lambda norm, x: (norm.double(), x.double()),
        lambda norm, x: (norm, x.contiguous()),
    ],
    ids=["training", "evaluation", "no weight", "no statistics", "another norm", "float64", "channels first"],
)
def test_normed_equals_torchs_batch_norm_and_relu(change):
    norm, x = change(layer(8), images((2, 8, 3, 3)))
    expected = F.relu(copy.deepcopy(norm)(x))
    torch.testing.assert_close(normed(norm, x, relu=True), expected)


def test_one_value_per_channel_is_torchs_error():
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        normed(layer(8), images((1, 8, 1, 1)))


@pytest.mark.parametrize("frozen", ["weight", "bias", "both"])
def test_frozen_parameters_get_no_gradient_and_do_not_change_others(frozen):
    gradients = []
    for forward in (lambda norm, x: F.relu(norm(x)), lambda norm, x: by_sums(norm, x, True)):
        norm, x = layer(8), images((2, 8, 3, 3)).requires_grad_()
        norm.weight.requires_grad_(frozen == "bias")
        norm.bias.requires_grad_(frozen == "weight")
        forward(norm, x).square().sum().backward()
        gradients.append([x.grad, norm.weight.grad, norm.bias.grad])
    for a, b in zip(*gradients, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
