"""Retrieval by cosine: do neighbours of a sample have its label, and do rows of one matrix find those of another?"""

from collections.abc import Iterator
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.extras import is_installed
from nonneg.metrics._codes import check, for_products, labelled, unit_codes, unit_cosines, unit_pair, unit_tensors

TOLERANCE = 1e-9
"""Cosines this close count as tied: in float64, the order of summation changes them by less."""
# Similarities held at a time: 2**25 in float64 take 256 MiB.
_ENTRIES = 2**25
_MOST_QUERIES = 1024


@overload
def precision_at_k(z: Any, labels: Any, k: int = 10, reduce: Literal[True] = True) -> float: ...
@overload
def precision_at_k(z: Any, labels: Any, k: int = 10, *, reduce: Literal[False]) -> Tensor: ...
def precision_at_k(z: Any, labels: Any, k: int = 10, reduce: bool = True) -> float | Tensor:
    """Return the share of the `k` nearest neighbours that have the label of the query, averaged over samples.

    Every labelled sample is a query; its neighbours are the other labelled samples, ranked by cosine. Ties, which
    sparse codes often have, are counted by their expected share under a random order, so that the result does not
    depend on the order of the samples. Cosines within 1e-9 are tied. At most 2²⁵ similarities are held at a time.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix.
        labels: `(samples,)`, one label per sample. Unlabelled samples (negative, NaN, None or empty) are neither
            queries nor neighbours.
        k: number of neighbours, smaller than the number of labelled samples.
        reduce: whether to average. If False, return the `(samples,)` values, NaN for unlabelled samples.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> precision_at_k(z, [0, 0, 1, 1], k=1)
        1.0
    """
    per_sample = _per_sample(z, labels, k, "precision_at_k", average=False)
    return float(per_sample.nanmean()) if reduce else per_sample


@overload
def mean_average_precision(z: Any, labels: Any, k: int = 10, reduce: Literal[True] = True) -> float: ...
@overload
def mean_average_precision(z: Any, labels: Any, k: int = 10, *, reduce: Literal[False]) -> Tensor: ...
def mean_average_precision(z: Any, labels: Any, k: int = 10, reduce: bool = True) -> float | Tensor:
    """Return mAP@k: the precision at each hit among the `k` nearest neighbours, averaged over samples.

    The average precision of a query is the sum of the precision at the rank of each hit, divided by the largest
    possible number of hits, min(k, other samples of its class). Queries that are alone in their class are left out.
    Neighbours, ties and memory are as in `precision_at_k`.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix.
        labels: `(samples,)`, one label per sample. Unlabelled samples (negative, NaN, None or empty) are neither
            queries nor neighbours.
        k: number of neighbours, smaller than the number of labelled samples.
        reduce: whether to average. If False, return the `(samples,)` values, NaN for samples that are unlabelled or
            alone in their class.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.9, 0.1]])
        >>> mean_average_precision(z, [0, 0, 1], k=2)
        0.5
    """
    per_sample = _per_sample(z, labels, k, "mean_average_precision", average=True)
    return float(per_sample.nanmean()) if reduce else per_sample


def query_blocks(queries: int, candidates: int) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, last) of queries whose similarities to all candidates fit into 256 MiB."""
    rows = max(1, min(_MOST_QUERIES, _ENTRIES // candidates))
    for first in range(0, queries, rows):
        yield first, min(first + rows, queries)


def _per_sample(z: Any, labels: Any, k: int, metric: str, average: bool) -> Tensor:
    """Return `(samples,)` values in float64, on the CPU."""
    z, y, known = labelled(z, labels, metric)
    if not 0 < k < len(y):
        raise ValueError(f"{metric}: k is {k}, expected 1 to {len(y) - 1} for {len(y)} labelled samples")
    units = unit_codes(for_products(z, metric), metric)
    if sp.issparse(units) and is_installed("numba"):
        found = _in_threads(units, y, k, average)
    else:
        measure = _average_precision if average else _precision
        y = y if sp.issparse(units) else y.to(units.device)
        # A block is dropped before the next one is computed: nothing but the call refers to it.
        blocks = query_blocks(len(y), len(y))
        found = torch.cat([measure(*_block(units, y, first, last), k) for first, last in blocks])
    per_sample = torch.full((len(known),), float("nan"), dtype=torch.float64)
    per_sample[known] = found.cpu()
    return per_sample


def _in_threads(units: sp.csr_array, y: Tensor, k: int, average: bool) -> Tensor:
    from nonneg.metrics import _neighbour_kernel as kernel
    from nonneg.metrics._compiled import column_lists, in_threads, row_lists

    measure = kernel.average_precision if average else kernel.precision
    rows, inverted, classes, found = row_lists(units), column_lists(units), y.numpy(), np.empty(len(y))
    in_threads(
        lambda first, last: measure(rows, inverted, classes, k, TOLERANCE, first, last, found), len(y), block=256
    )
    return torch.from_numpy(found)


def _block(units: Any, y: Tensor, first: int, last: int) -> tuple[Tensor, Tensor]:
    """Return the similarities of some queries to all samples (−inf to itself), and which have the same label."""
    own = torch.arange(first, last, device=y.device)[:, None]
    similarity = unit_cosines(units[first:last], units).scatter_(1, own, float("-inf"))
    return similarity, (y[first:last, None] == y).scatter_(1, own, False)


def _precision(similarity: Tensor, same: Tensor, k: int) -> Tensor:
    kth, similarity, same = _nearest(similarity, same, k)
    nearer, tied = _nearer_and_tied(similarity, kth[:, -1:])
    certain, places = _count(nearer & same), k - _count(nearer)
    return (certain + _count(tied & same) / _count(tied).double() * places) / k


def _average_precision(similarity: Tensor, same: Tensor, k: int) -> Tensor:
    relevant = _count(same)
    nearest, similarity, same = _nearest(similarity, same, k)
    precision_at_hits = torch.zeros(len(similarity), dtype=torch.float64, device=similarity.device)
    for rank in range(k):
        nearer, tied = _nearer_and_tied(similarity, nearest[:, rank, None])
        size, hits = _count(tied), _count(tied & same).double()
        # The expected number of hits up to this rank, given a hit at it: the hits that are nearer, this one, and
        # those of the other tied hits that precede it in a random order.
        places_before = rank - _count(nearer)
        others = places_before * (hits - 1).clamp(min=0) / (size - 1).clamp(min=1)
        expected_hits = _count(nearer & same) + 1 + others
        precision_at_hits += hits / size * expected_hits / (rank + 1)
    return (precision_at_hits / relevant.clamp(max=k)).masked_fill(relevant == 0, float("nan"))


def _nearest(similarity: Tensor, same: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `k` largest similarities of each query, and the columns that hold them and all their ties."""
    nearest = similarity.topk(k, dim=1).values
    columns = int(_count(similarity >= nearest[:, -1:] - TOLERANCE).max())
    if columns > similarity.shape[1] // 8:  # an empty row is tied with all samples
        return nearest, similarity, same
    similarity, places = similarity.topk(columns, dim=1)
    return nearest, similarity, same.gather(1, places)


def _nearer_and_tied(similarity: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    nearer = similarity > level + TOLERANCE
    return nearer, (similarity >= level - TOLERANCE) & ~nearer


def _count(entries: Tensor) -> Tensor:
    # A sum in int64 would first copy the entries to int64.
    return entries.sum(1, dtype=torch.int32)


def recall_at_k(a: Any, b: Any, k: int = 1) -> float:
    """Return the share of rows of `a` whose own row of `b` is among the `k` nearest rows of `b`, by cosine.

    Ties are counted by their expected share: a row that is tied with one other for the last place counts one half.
    Cosines within 1e-9 are tied. At most 2²⁵ similarities are held at a time.

    Args:
        a, b: `(samples, features)` torch, NumPy or SciPy sparse matrices; row i of both belong together.
        k: number of neighbours.

    Example:
        >>> a = np.array([[1.0, 0.0], [0.6, 0.8]])
        >>> recall_at_k(a, np.array([[1.0, 0.0], [1.0, 0.0]]))
        0.5
    """
    for z in (a, b):
        check(z, "recall_at_k")
    if a.shape != b.shape:
        raise ValueError(f"recall_at_k: a has shape {tuple(a.shape)} and b {tuple(b.shape)}, expected equal shapes")
    samples = int(a.shape[0])
    if not 0 < k <= samples:
        raise ValueError(f"recall_at_k: k is {k}, expected 1 to {samples} for {samples} samples")
    queries, candidates = unit_pair(a, b, "recall_at_k")
    if sp.issparse(queries) and is_installed("numba"):
        return _recall_in_threads(queries, candidates, k)
    found = 0.0
    for first, last in query_blocks(samples, samples):
        similarity = unit_cosines(queries[first:last], candidates)
        own = similarity.diagonal(first)[:, None]
        nearer = (similarity > own + TOLERANCE).sum(1)
        tied = (similarity >= own - TOLERANCE).sum(1) - nearer
        found += float(((k - nearer) / tied.double()).clamp(0, 1).sum())
    return found / samples


def _recall_in_threads(queries: sp.csr_array, candidates: sp.csr_array, k: int) -> float:
    from nonneg.metrics import _neighbour_kernel as kernel
    from nonneg.metrics._compiled import column_lists, in_threads, row_lists

    rows, inverted, chances = row_lists(queries), column_lists(candidates), np.empty(queries.shape[0])
    in_threads(
        lambda first, last: kernel.recall(rows, inverted, k, TOLERANCE, first, last, chances), len(chances), block=256
    )
    return float(chances.mean())


def group_recall_at_k(a: Any, b: Any, groups_a: Any, groups_b: Any, k: int = 10) -> Tensor:
    """Return, for each row of `a`, whether one of the `k` nearest rows of `b` by cosine is of its group.

    Ties count as in `recall_at_k`: by the share of orders in which a row of the group is among the first `k`.

    Args:
        a: `(queries, features)`, a torch, NumPy or SciPy sparse matrix.
        b: `(candidates, features)`, likewise.
        groups_a, groups_b: one integer per row, such as the number of the text of a picture.
        k: number of neighbours.

    Returns:
        `(queries,)` float64 from 0 to 1; their mean is the recall.

    Example:
        >>> texts, pictures = np.eye(2), np.array([[0.9, 0.1], [0.6, 0.8], [0.0, 1.0]])
        >>> group_recall_at_k(texts, pictures, [0, 1], [0, 1, 0], k=1).tolist()
        [1.0, 0.0]
    """
    for z in (a, b):
        check(z, "group_recall_at_k")
    if k < 1 or a.shape[1] != b.shape[1]:
        raise ValueError(f"group_recall_at_k: k is {k} and the widths are {a.shape[1]} and {b.shape[1]}")
    x, y = unit_tensors(a, b, "group_recall_at_k")
    own, theirs = (torch.tensor(np.array(groups), device=x.device) for groups in (groups_a, groups_b))
    found = []
    for first, last in query_blocks(len(x), len(y)):
        similarity = x[first:last] @ y.T
        is_partner = own[first:last, None] == theirs
        found.append(_chance_within(torch.tensor([k], device=x.device), *_ranked(similarity, is_partner))[:, 0])
    return torch.cat(found)


def _ranked(similarity: Tensor, is_own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return, for each query, the number of other rows before its nearest own one, and of own and others tied there.

    Args:
        similarity: `(queries, candidates)`.
        is_own: the same shape; a query may have none.
    """
    best = similarity.masked_fill(~is_own, -torch.inf).amax(1, keepdim=True)
    others = similarity.masked_fill(is_own, -torch.inf)
    nearer = (others > best + TOLERANCE).sum(1)
    tied_own = ((similarity >= best - TOLERANCE) & is_own).sum(1)
    return nearer, tied_own, (others >= best - TOLERANCE).sum(1) - nearer


def _chance_within(ranks: Tensor, nearer: Tensor, tied_own: Tensor, tied_others: Tensor) -> Tensor:
    """Return `(queries, ranks)`, the share of orders of tied rows in which an own row has at most this rank."""
    nearer, own, others = (count[:, None].double() for count in (nearer, tied_own, tied_others))
    places = (ranks - nearer).clamp(min=0)
    without = torch.minimum(places, others)  # all of these places go to others with a probability of C(…) / C(…)
    log_none = _log_falling(others, without) - _log_falling(own + others, without)
    return torch.where((places > others) & (own > 0), 1.0, 1 - log_none.exp())


def _log_falling(n: Tensor, k: Tensor) -> Tensor:
    """Return the logarithm of n (n − 1) … (n − k + 1)."""
    return torch.lgamma(n + 1) - torch.lgamma(n - k + 1)


@overload
def mean_reciprocal_rank(a: Any, b: Any, k: int = 10, reduce: Literal[True] = True, own: Any = None) -> float: ...
@overload
def mean_reciprocal_rank(a: Any, b: Any, k: int = 10, *, reduce: Literal[False], own: Any = None) -> Tensor: ...
def mean_reciprocal_rank(a: Any, b: Any, k: int = 10, reduce: bool = True, own: Any = None) -> float | Tensor:
    """Return the mean of 1 / rank of each row of `a`'s own row of `b`, by cosine; ranks beyond `k` count 0: MRR@k.

    Tied rows count the mean over all their orders, so that MRR@1 is `recall_at_k` with k = 1. Of several own rows, the
    first counts.

    Args:
        a, b: `(samples, features)` torch, NumPy or SciPy sparse matrices.
        k: the last rank that counts.
        reduce: return the mean; otherwise one value per row, `(samples,)` float64.
        own: `(rows of a, rows of b)` SciPy sparse booleans: which rows of `b` belong to a row of `a`, at least one; by
            default row i of both belong together.

    Example:
        >>> a = np.array([[1.0, 0.0], [0.6, 0.8]])
        >>> mean_reciprocal_rank(a, np.array([[1.0, 0.0], [1.0, 0.0]]))
        0.75
    """
    for z in (a, b):
        check(z, "mean_reciprocal_rank")
    if a.shape[1] != b.shape[1] or (own is None and a.shape != b.shape):
        raise ValueError(
            f"mean_reciprocal_rank: a has shape {tuple(a.shape)} and b {tuple(b.shape)}, expected the same"
        )
    if k < 1:
        raise ValueError(f"mean_reciprocal_rank: k is {k}, expected 1 or more")
    own = sp.eye_array(a.shape[0], dtype=bool, format="csr") if own is None else sp.csr_array(own, dtype=bool)
    if own.shape != (a.shape[0], b.shape[0]) or not own.sum(axis=1).all():
        raise ValueError(f"mean_reciprocal_rank: own has shape {own.shape}, expected one row of b or more per row of a")
    queries, candidates = unit_tensors(a, b, "mean_reciprocal_rank")
    ranks = torch.arange(1, min(k, len(candidates)) + 1, dtype=torch.float64, device=queries.device)
    values = []
    for first, last in query_blocks(len(queries), len(candidates)):
        is_own = torch.from_numpy(own[first:last].toarray()).to(queries.device)
        within = _chance_within(ranks, *_ranked(queries[first:last] @ candidates.T, is_own))
        values.append(within.diff(dim=1, prepend=torch.zeros_like(within[:, :1])) @ ranks.reciprocal())
    found = torch.cat(values)
    return float(found.mean()) if reduce else found
