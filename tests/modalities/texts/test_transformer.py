"""The small transformer: padding and order never change a text's vector."""

import pytest
import torch

from nonneg.modalities.texts import Transformer


def encoder(pooling="mean", depth=2):
    torch.manual_seed(0)
    return Transformer(vocabulary=50, length=12, width=16, depth=depth, heads=4, pooling=pooling).double()


def tokens(rows=150, longest=12):
    torch.manual_seed(1)
    lengths = torch.randint(1, longest + 1, (rows, 1))
    return torch.where(torch.arange(longest) < lengths, torch.randint(0, 50, (rows, longest)), -1)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("depth", [0, 2])
def test_a_text_has_the_same_vector_alone_and_in_a_batch(pooling, depth):
    network, given = encoder(pooling, depth), tokens()
    whole = network({"tokens": given})
    for row in (0, 70, 149):
        alone = given[row][given[row] >= 0][None]
        torch.testing.assert_close(network({"tokens": alone})[0], whole[row])


def test_the_order_of_tokens_counts():
    network = encoder()
    a, b = network({"tokens": torch.tensor([[1, 2, 3], [3, 2, 1]])})
    assert not torch.allclose(a, b)


def test_dropout_belongs_to_its_text():
    network, given = encoder(), tokens()
    masks = (torch.rand(150, 5, 16) > 0.3).double()
    whole = network({"tokens": given, "dropout": masks})
    part = network({"tokens": given[90:], "dropout": masks[90:]})
    torch.testing.assert_close(whole[90:], part)
    assert not torch.allclose(whole, network({"tokens": given}))


def test_gradients_reach_every_weight():
    network, given = encoder(), tokens()
    network({"tokens": given}).square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
