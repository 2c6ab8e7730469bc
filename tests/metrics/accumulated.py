"""The metrics that can be accumulated, each with its pure function; shared by the tests with one and two processes."""

import dataclasses
from typing import Any

import torch
from torch import Tensor

from nonneg import metrics
from nonneg.metrics import accumulate

CASES = {
    "ClassConsistency": (
        lambda: accumulate.ClassConsistency(12, 4, min_support=8),
        lambda z, y: metrics.class_consistency(z, y, min_support=8),
    ),
    "Activity": (lambda: accumulate.Activity(12, dense=0.2), lambda z, y: metrics.activity(z, dense=0.2)),
    "Sparsity": (accumulate.Sparsity, lambda z, y: metrics.sparsity(z)),
    "Hoyer": (accumulate.Hoyer, lambda z, y: metrics.hoyer(z)),
    "ExpectedActivation": (lambda: accumulate.ExpectedActivation(12), lambda z, y: metrics.expected_activation(z)),
    "Correlation": (lambda: accumulate.Correlation(12), lambda z, y: metrics.correlation(z)),
    "EffectiveRank": (lambda: accumulate.EffectiveRank(12), lambda z, y: metrics.effective_rank(z)),
}


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = (torch.randn(60, 12, generator=generator) - 0.8).relu()
    z[3] = 0
    z[:, 5] = 0
    return z, torch.randint(-1, 4, (60,), generator=generator)


def difference(found: Any, expected: Any) -> float:
    """Return the largest difference between two numbers, tensors or results."""
    if isinstance(found, dict):
        fields = {f.name for f in dataclasses.fields(expected)}
        assert fields - set(found) <= {"floor", "variant"}
        return max(difference(value, getattr(expected, name)) for name, value in found.items())
    a, b = (torch.as_tensor(value, dtype=torch.float64) for value in (found, expected))
    return float((a - b).masked_fill(a.isnan() & b.isnan(), 0).abs().max())
