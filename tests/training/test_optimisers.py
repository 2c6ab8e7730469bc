import copy
import itertools

import pytest
import torch

from nonneg.modalities.images import Images
from nonneg.models import Model
from nonneg.training._optimisers import LARS, learning_rate, optimiser_of, parameter_groups, set_learning_rate
from nonneg.training.config import TrainConfig


def parameters(seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(4, 3), (2, 3, 3, 3), (5,), (1, 6)]
    params = [torch.nn.Parameter(torch.randn(s, generator=generator, dtype=torch.float64)) for s in shapes]
    params[3].data.zero_()  # a weight of zeros must be able to leave 0
    return params


def gradients(step):
    generator = torch.Generator().manual_seed(100 + step)
    grads = [torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in parameters()]
    if step == 1:
        grads[0].zero_()
    return grads


def by_hand(params, steps, lr, momentum, weight_decay, trust):
    """Compute LARS by its formula, one weight after the other."""
    values = [p.detach().clone() for p in params]
    velocities = [torch.zeros_like(v) for v in values]
    for step in range(steps):
        for i, g in enumerate(gradients(step)):
            if values[i].dim() > 1:
                length, slope = float(values[i].norm()), float(g.norm())
                share = 1.0
                if length > 0 and slope > 0:
                    share = min(trust * length / (slope + weight_decay * length) / lr, 1.0)
                g = (g + weight_decay * values[i]) * share
            velocities[i] = momentum * velocities[i] + g
            values[i] = values[i] - lr * velocities[i]
    return values


@pytest.mark.parametrize("lr", [0.4, 0.001, torch.tensor(0.4, dtype=torch.float64)], ids=["large", "small", "tensor"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_lars_agrees_with_its_formula(lr, weight_decay):
    params = parameters()
    expected = by_hand(params, 4, float(lr), 0.9, weight_decay, 0.02)
    optimiser = LARS(params, lr, momentum=0.9, weight_decay=weight_decay, trust=0.02)
    for step in range(4):
        for p, g in zip(params, gradients(step), strict=True):
            p.grad = g
        optimiser.step()
    for p, e in zip(params, expected, strict=True):
        torch.testing.assert_close(p.data, e, rtol=1e-12, atol=1e-14)


def test_compiled_lars_has_one_kernel_for_weights_of_any_shape_and_layout():
    shapes = ((8, 3, 3, 3), (16, 8, 1, 1), (16, 8, 3, 3), (5, 8), (9, 2), (12, 30), (4, 7, 3), (6, 4))
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in shapes]
    start[2] = start[2].contiguous(memory_format=torch.channels_last)
    start[-1] = torch.randn(6, 8, generator=generator)[:, :4]  # its numbers do not lie one after the other
    ends = []
    torch._dynamo.reset()
    graphs = torch._dynamo.utils.counters["stats"]
    before = graphs["unique_graphs"]
    for compiles in (False, True):
        params = [torch.empty_like(p).copy_(p) if p is not start[-1] else p.clone().repeat(1, 2)[:, :4] for p in start]
        optimiser = LARS(params, 0.4, 0.9, 1e-2, 0.02)
        if compiles:
            optimiser.compile()
        for step in (1, 2):
            for p in params:
                p.grad = torch.sin(step * p).contiguous()
            optimiser.step()
        ends.append(params)
    for eager, compiled in zip(*ends, strict=True):
        torch.testing.assert_close(compiled, eager)
    assert graphs["unique_graphs"] == before + 1


def test_lars_can_be_copied():
    optimiser = copy.deepcopy(LARS(parameters(), 0.1, momentum=0.9, weight_decay=0.0, trust=0.02))
    params = optimiser.param_groups[0]["params"]
    before = params[0].detach().clone()
    params[0].grad = torch.ones_like(params[0])
    optimiser.step()
    assert not torch.equal(params[0].data, before)


def test_lars_does_not_change_parameters_without_a_gradient():
    params = parameters()
    before = params[0].detach().clone()
    params[1].grad = torch.ones_like(params[1])
    LARS(params, 0.1, momentum=0.9, weight_decay=0.1, trust=0.02).step()
    assert torch.equal(params[0].data, before)


def test_learning_rates_that_are_tensors_are_set_in_place():
    params = parameters()
    rate = torch.tensor(0.5, dtype=torch.float64)
    optimiser = LARS(params, rate, 0.9, 0.0, 0.02)
    set_learning_rate(optimiser, 0.25)
    assert float(rate) == 0.25
    plain = torch.optim.SGD(params, 0.5)
    set_learning_rate(plain, 0.25)
    assert plain.param_groups[0]["lr"] == 0.25


def test_the_encoder_can_have_a_learning_rate_of_its_own():
    config = TrainConfig(encoder_lr=0.1, lr=0.5, optimiser="sgd", weight_decay=0.0)
    network = Model(config.model(Images(channels=1), classes=0))
    optimiser = optimiser_of(parameter_groups(network, config), config, torch.device("cpu"))
    set_learning_rate(optimiser, 0.25)
    assert [group["lr"] for group in optimiser.param_groups] == pytest.approx([0.025, 0.25])
    assert {id(p) for p in optimiser.param_groups[0]["params"]} == {id(p) for p in network.encoder.parameters()}


def test_learning_rate_warms_up_and_falls_along_a_cosine():
    config = TrainConfig(lr=1.0)
    rates = [learning_rate(config, step, steps=100, warmup=10) for step in range(100)]
    assert rates[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert rates[10] == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.5)
    assert rates[99] < 0.001
    assert all(a > b for a, b in itertools.pairwise(rates[10:]))


def test_lars_updates_parameters_that_are_added_later():
    first, second = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimiser = LARS([first], lr=0.1, momentum=0.9, weight_decay=0.0, trust=0.02)
    optimiser.add_param_group({"params": [second]})
    for p in (first, second):
        p.grad = torch.ones(2)
    optimiser.step()
    assert torch.equal(first, second) and float(second.detach()[0]) == pytest.approx(0.9)
