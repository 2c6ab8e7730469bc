import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nonneg.modalities.images.encoders.norm import joined, normed


def layer(channels):
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(channels)
    for given in (norm.weight, norm.bias, norm.running_mean):
        nn.init.normal_(given, 1.0)
    return norm


def images(shape, seed=0):
    x = 3 * torch.randn(shape, generator=torch.Generator().manual_seed(seed)) + 2
    return x.contiguous(memory_format=torch.channels_last)


class AnotherNorm(nn.BatchNorm2d):
    pass


CHANGES = [
    pytest.param(lambda norm, x: (norm, x), id="training"),
    pytest.param(lambda norm, x: (norm.eval(), x), id="evaluation"),
    pytest.param(lambda norm, x: (nn.BatchNorm2d(8, affine=False), x), id="no weight"),
    pytest.param(lambda norm, x: (nn.BatchNorm2d(8, track_running_stats=False), x), id="no statistics"),
    pytest.param(lambda norm, x: (AnotherNorm(8), x), id="another norm"),
    pytest.param(lambda norm, x: (norm.double(), x.double()), id="float64"),
    pytest.param(lambda norm, x: (norm, x.contiguous()), id="channels first"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_normed_equals_torchs_batch_norm_and_relu(change):
    norm, x = change(layer(8), images((2, 8, 3, 3)))
    expected = F.relu(copy.deepcopy(norm)(x))
    torch.testing.assert_close(normed(norm, x, relu=True), expected)


@pytest.mark.parametrize("change", CHANGES)
def test_joined_equals_torchs_batch_norm_a_sum_and_relu_and_comes_twice(change):
    norm, x = change(layer(8), images((2, 8, 3, 3)))
    shortcut = images((2, 8, 3, 3), seed=1).to(x.dtype)
    expected = F.relu(copy.deepcopy(norm)(x) + shortcut)
    for out in joined(norm, x, shortcut):
        torch.testing.assert_close(out, expected)


def test_the_gradients_of_both_uses_are_added():
    shortcut = images((2, 8, 3, 3), seed=1).requires_grad_()
    out, again = joined(layer(8), images((2, 8, 3, 3)), shortcut)
    (out.sum() + 10 * again.sum()).backward()
    torch.testing.assert_close(shortcut.grad, 11.0 * (out > 0))


def test_one_value_per_channel_is_torchs_error():
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        normed(layer(8), images((1, 8, 1, 1)))
