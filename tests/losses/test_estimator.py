"""The spectral loss of a batch is an unbiased estimate of the population's loss: averaged over all batches."""

import itertools

import pytest
import torch

from nonneg import losses


def all_batches_of_two(joint: torch.Tensor):
    """Every ordered batch of two pairs drawn from the joint distribution, with its probability."""
    rows, columns = joint.shape
    cells = [(i, j, float(joint[i, j])) for i, j in itertools.product(range(rows), range(columns))]
    for (i1, j1, p1), (i2, j2, p2) in itertools.product(cells, repeat=2):
        yield torch.tensor([i1, i2]), torch.tensor([j1, j2]), p1 * p2


def random_joint(rows: int, columns: int, symmetric: bool) -> torch.Tensor:
    p = torch.rand(rows, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = p + p.T if symmetric else p
    return p / p.sum()


@pytest.mark.parametrize("width", [2, 9])
def test_spectral_averages_to_the_population_loss(width):
    joint = random_joint(4, 4, symmetric=True)
    marginal = joint.sum(1)
    f = torch.rand(4, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    similar = f @ f.T
    population = -2 * (joint * similar).sum() + (marginal[:, None] * marginal * similar.square()).sum()
    estimate = sum(p * losses.spectral(f[i], f[j]) for i, j, p in all_batches_of_two(joint))
    assert float(estimate) == pytest.approx(float(population), rel=1e-12)


@pytest.mark.parametrize("width", [2, 9])
def test_multimodal_spectral_averages_to_the_population_loss(width):
    joint = random_joint(3, 4, symmetric=False)
    f = torch.rand(3, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    g = torch.rand(4, width, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    similar = f @ g.T
    independent = joint.sum(1)[:, None] * joint.sum(0)
    population = -2 * (joint * similar).sum() + (independent * similar.square()).sum()
    estimate = sum(p * losses.multimodal.spectral(f[i], g[j]) for i, j, p in all_batches_of_two(joint))
    assert float(estimate) == pytest.approx(float(population), rel=1e-12)
