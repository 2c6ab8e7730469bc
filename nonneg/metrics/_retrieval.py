"""Retrieval: are a sample's nearest neighbours (cosine, itself left out) of its own class?"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nonneg.metrics._codes import as_dense, as_labels, unit_rows

# Queries at a time: similarities take chunk x samples entries.
_CHUNK = 1024


def precision_at_k(z: Any, labels: Any, k: int = 10) -> float:
    """Share of a sample's `k` nearest neighbours that have its label, averaged over samples.

    Neighbours at equal distance (sparse codes have many) count by their expected share, so the
    figure does not depend on the order of the samples.

    Args:
        z: `(samples, features)`: torch, NumPy or SciPy sparse.
        labels: `(samples,)` integers.
        k: neighbours, fewer than there are samples.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> precision_at_k(z, [0, 0, 1, 1], k=1)
        1.0
    """
    total = 0.0
    samples = 0
    for similarity, same, _ in _queries(z, labels, k, "precision_at_k"):
        kth = similarity.topk(k, dim=1).values[:, -1:]
        nearer, level = similarity > kth, similarity == kth
        sure_hits = (nearer & same).sum(1)
        chance_hits = (level & same).sum(1) / level.sum(1).double() * (k - nearer.sum(1))
        total += float((sure_hits + chance_hits).sum()) / k
        samples += len(similarity)
    return total / samples


def mean_average_precision(z: Any, labels: Any, k: int = 10) -> float:
    """mAP@k: precision at each hit among the `k` nearest, over min(k, same-class samples), averaged.

    Samples that are alone in their class are left out. Neighbours at equal distance count by their
    expectation over a random order, as in `precision_at_k`.

    Args:
        z: `(samples, features)`: torch, NumPy or SciPy sparse.
        labels: `(samples,)` integers.
        k: neighbours, fewer than there are samples.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.9, 0.1]])
        >>> mean_average_precision(z, [0, 0, 1], k=2)
        0.5
    """
    total = 0.0
    queries = 0
    for similarity, same, relevant in _queries(z, labels, k, "mean_average_precision"):
        nearest = similarity.topk(k, dim=1).values
        precision_at_hits = torch.zeros(len(similarity), dtype=torch.float64, device=similarity.device)
        for rank in range(k):
            nearer, level = similarity > nearest[:, rank, None], similarity == nearest[:, rank, None]
            size, hits = level.sum(1), (level & same).sum(1).double()
            # Given a hit at this rank, the hits expected up to it: those nearer, itself, and of the
            # other hits at this distance those whose place in the random order comes before.
            places_before = rank - nearer.sum(1)
            others = places_before * (hits - 1).clamp(min=0) / (size - 1).clamp(min=1)
            expected_hits = (nearer & same).sum(1) + 1 + others
            precision_at_hits += hits / size * expected_hits / (rank + 1)
        total += float((precision_at_hits / relevant.clamp(min=1, max=k)).sum())
        queries += int((relevant > 0).sum())
    return total / queries if queries else float("nan")


def _queries(z: Any, labels: Any, k: int, metric: str) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """A chunk of queries at a time: similarity to all samples (itself −inf), same label, how many have it."""
    units = unit_rows(as_dense(z, metric))
    samples = len(units)
    y = as_labels(labels, samples, metric).to(units.device)
    if not 0 < k < samples:
        raise ValueError(f"{metric}: k is {k}, expected 1 to {samples - 1} for {samples} samples")
    for start in range(0, samples, _CHUNK):
        own = torch.arange(start, min(start + _CHUNK, samples), device=units.device)
        similarity = (units[own] @ units.T).scatter_(1, own[:, None], float("-inf"))
        same = (y[own, None] == y).scatter_(1, own[:, None], False)
        yield similarity, same, same.sum(1)
