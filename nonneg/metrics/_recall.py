"""Recall across two views: does a row of one find its own row of the other?"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.metrics._codes import as_dense, check, for_products, on_gpu, unit_csr, unit_rows

# Queries at a time, and cosines taken as equal: as in `_retrieval`.
_CHUNK = 1024
_TOLERANCE = 1e-9


def recall_at_k(a: Any, b: Any, k: int = 1) -> float:
    """Share of the rows of `a` that have their own row of `b` among the `k` nearest of all rows of `b`, by cosine.

    Rows at equal distance count by their share: one of two that are level for the last place counts a half.

    Args:
        a, b: `(samples, features)`, row i of both belonging together: torch, NumPy or SciPy sparse.
        k: neighbours.

    Example:
        >>> a = np.array([[1.0, 0.0], [0.6, 0.8]])
        >>> recall_at_k(a, np.array([[1.0, 0.0], [1.0, 0.0]]))
        0.5
    """
    for z in (a, b):
        check(z, "recall_at_k")
    if a.shape != b.shape:
        raise ValueError(f"recall_at_k: a has shape {tuple(a.shape)} and b {tuple(b.shape)}, expected the same")
    samples = int(a.shape[0])
    if not 0 < k <= samples:
        raise ValueError(f"recall_at_k: k is {k}, expected 1 to {samples} for {samples} samples")
    a, b = for_products(a, "recall_at_k"), for_products(b, "recall_at_k")
    if sp.issparse(a) and sp.issparse(b):
        from nonneg.metrics import _neighbour_kernel as kernel
        from nonneg.metrics._compiled import column_lists, in_threads, row_lists

        queries, holders = row_lists(unit_csr(a, "recall_at_k")), column_lists(unit_csr(b, "recall_at_k"))
        chances = np.empty(samples)
        in_threads(
            lambda first, last: kernel.recall(queries, holders, k, _TOLERANCE, first, last, chances), samples, 256
        )
        return float(chances.mean())
    x, y = as_dense(a, "recall_at_k"), as_dense(b, "recall_at_k")
    device = x.device if on_gpu(x) else y.device
    rows, others = unit_rows(x.to(device).double()), unit_rows(y.to(device).double())
    found = 0.0
    for start in range(0, samples, _CHUNK):
        similarity = rows[start : start + _CHUNK] @ others.T
        own = similarity.diagonal(start)[:, None]
        nearer, level = (similarity > own + _TOLERANCE).sum(1), ((similarity - own).abs() <= _TOLERANCE).sum(1)
        found += float(((k - nearer) / level.double()).clamp(0, 1).sum())
    return found / samples
