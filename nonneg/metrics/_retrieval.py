"""Retrieval: are a sample's nearest neighbours (cosine, itself left out) of its own class?"""

from collections.abc import Iterator
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.metrics._codes import as_dense, for_products, unit_csr, unit_rows
from nonneg.metrics._labels import labelled

# Queries at a time: similarities take chunk x samples entries.
_CHUNK = 1024
# Cosines this close are equal: sums in another order differ by less, in float64, as all of them are taken.
_TOLERANCE = 1e-9


@overload
def precision_at_k(z: Any, labels: Any, k: int = 10, reduce: Literal[True] = True) -> float: ...
@overload
def precision_at_k(z: Any, labels: Any, k: int = 10, *, reduce: Literal[False]) -> Tensor: ...
def precision_at_k(z: Any, labels: Any, k: int = 10, reduce: bool = True) -> float | Tensor:
    """Share of a sample's `k` nearest neighbours that have its label, averaged over samples.

    Neighbours at equal distance (sparse codes have many) count by their expected share, so the
    figure does not depend on the order of the samples.

    Args:
        z: `(samples, features)`: torch, NumPy or SciPy sparse.
        labels: `(samples,)` integers; samples with a negative one are neither queries nor neighbours.
        k: neighbours, fewer than there are labelled samples.
        reduce: False gives the `(samples,)` figures behind the mean, NaN where unlabelled.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> precision_at_k(z, [0, 0, 1, 1], k=1)
        1.0
    """
    each = _each_sample(z, labels, k, "precision_at_k", average=False)
    return float(each.nanmean()) if reduce else each


@overload
def mean_average_precision(z: Any, labels: Any, k: int = 10, reduce: Literal[True] = True) -> float: ...
@overload
def mean_average_precision(z: Any, labels: Any, k: int = 10, *, reduce: Literal[False]) -> Tensor: ...
def mean_average_precision(z: Any, labels: Any, k: int = 10, reduce: bool = True) -> float | Tensor:
    """mAP@k: precision at each hit among the `k` nearest, over min(k, same-class samples), averaged.

    Samples that are alone in their class are left out. Neighbours at equal distance count by their
    expectation over a random order, as in `precision_at_k`.

    Args:
        z: `(samples, features)`: torch, NumPy or SciPy sparse.
        labels: `(samples,)` integers; samples with a negative one are neither queries nor neighbours.
        k: neighbours, fewer than there are labelled samples.
        reduce: False gives the `(samples,)` figures behind the mean, NaN where unlabelled or alone.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.9, 0.1]])
        >>> mean_average_precision(z, [0, 0, 1], k=2)
        0.5
    """
    each = _each_sample(z, labels, k, "mean_average_precision", average=True)
    return float(each.nanmean()) if reduce else each


def _each_sample(z: Any, labels: Any, k: int, metric: str, average: bool) -> Tensor:
    """`(samples,)` in float64, on the CPU."""
    z, y, known = labelled(z, labels, metric)
    if not 0 < k < len(y):
        raise ValueError(f"{metric}: k is {k}, expected 1 to {len(y) - 1} for {len(y)} labelled samples")
    z = for_products(z, metric)
    if sp.issparse(z):
        found = _in_threads(unit_csr(z, metric), y, k, average)
    else:
        measure = _average_precision if average else _precision
        found = torch.cat([measure(similarity, same, k) for similarity, same in _queries(as_dense(z, metric), y)])
    each = torch.full((len(known),), float("nan"), dtype=torch.float64)
    each[known] = found.cpu()
    return each


def _in_threads(units: sp.csr_array, y: Tensor, k: int, average: bool) -> Tensor:
    from nonneg.metrics import _neighbour_kernel as kernel
    from nonneg.metrics._compiled import column_lists, in_threads, row_lists

    measure = kernel.average_precision if average else kernel.precision
    rows, holders, classes, found = row_lists(units), column_lists(units), y.numpy(), np.empty(len(y))
    in_threads(
        lambda first, last: measure(rows, holders, classes, k, _TOLERANCE, first, last, found), len(y), block=256
    )
    return torch.from_numpy(found)


def _queries(dense: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """A chunk of queries at a time: similarity to all samples (itself −inf), whether they have the same label."""
    units = unit_rows(dense.double())
    y = y.to(units.device)
    for start in range(0, len(units), _CHUNK):
        own = torch.arange(start, min(start + _CHUNK, len(units)), device=units.device)
        similarity = (units[own] @ units.T).scatter_(1, own[:, None], float("-inf"))
        yield similarity, (y[own, None] == y).scatter_(1, own[:, None], False)


def _precision(similarity: Tensor, same: Tensor, k: int) -> Tensor:
    kth = similarity.topk(k, dim=1).values[:, -1:]
    nearer, level = similarity > kth + _TOLERANCE, (similarity - kth).abs() <= _TOLERANCE
    sure_hits = (nearer & same).sum(1)
    chance_hits = (level & same).sum(1) / level.sum(1).double() * (k - nearer.sum(1))
    return (sure_hits + chance_hits) / k


def _average_precision(similarity: Tensor, same: Tensor, k: int) -> Tensor:
    nearest = similarity.topk(k, dim=1).values
    relevant = same.sum(1)
    precision_at_hits = torch.zeros(len(similarity), dtype=torch.float64, device=similarity.device)
    for rank in range(k):
        at = nearest[:, rank, None]
        nearer, level = similarity > at + _TOLERANCE, (similarity - at).abs() <= _TOLERANCE
        size, hits = level.sum(1), (level & same).sum(1).double()
        # Given a hit at this rank, the hits expected up to it: those nearer, itself, and of the
        # other hits at this distance those whose place in the random order comes before.
        places_before = rank - nearer.sum(1)
        others = places_before * (hits - 1).clamp(min=0) / (size - 1).clamp(min=1)
        expected_hits = (nearer & same).sum(1) + 1 + others
        precision_at_hits += hits / size * expected_hits / (rank + 1)
    return (precision_at_hits / relevant.clamp(max=k)).masked_fill(relevant == 0, float("nan"))
