"""Recall across two sets of codes: does a row of one find its own row of the other?"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.codes import unit_rows
from nonneg.metrics._codes import as_csr, as_dense, check, for_products, on_gpu
from nonneg.metrics._retrieval import TOLERANCE, query_blocks


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
    a, b = for_products(a, "recall_at_k"), for_products(b, "recall_at_k")
    if sp.issparse(a) and sp.issparse(b):
        return _in_threads(unit_rows(as_csr(a, "recall_at_k")), unit_rows(as_csr(b, "recall_at_k")), k)
    x, y = as_dense(a, "recall_at_k"), as_dense(b, "recall_at_k")
    device = x.device if on_gpu(x) else y.device
    queries, candidates = unit_rows(x.to(device).double()), unit_rows(y.to(device).double())
    found = 0.0
    for first, last in query_blocks(samples, samples):
        similarity = queries[first:last] @ candidates.T
        own = similarity.diagonal(first)[:, None]
        nearer = (similarity > own + TOLERANCE).sum(1)
        tied = (similarity >= own - TOLERANCE).sum(1) - nearer
        found += float(((k - nearer) / tied.double()).clamp(0, 1).sum())
    return found / samples


def _in_threads(queries: sp.csr_array, candidates: sp.csr_array, k: int) -> float:
    from nonneg.metrics import _neighbour_kernel as kernel
    from nonneg.metrics._compiled import column_lists, in_threads, row_lists

    rows, inverted, chances = row_lists(queries), column_lists(candidates), np.empty(queries.shape[0])
    in_threads(
        lambda first, last: kernel.recall(rows, inverted, k, TOLERANCE, first, last, chances), len(chances), block=256
    )
    return float(chances.mean())
