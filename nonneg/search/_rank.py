"""The ranking of samples by a query vector without an index, as on the page; engines score in modules of their own."""

from collections.abc import Collection
from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.payload import Array
from nonneg.search._codes import ranked_codes


def rank(
    features: Features, query: Any, *, k: int = 10, cosine: bool = True, allowed: Any = None
) -> tuple[Array, Array]:
    """Rank all samples by a query vector.

    A score is the inner product of the query and the sample's code, summed in float64. Codes are rounded to float32
    and their inactive entries count as zero, as in an index. Only scores above 0 are returned.

    Args:
        features: the samples to rank.
        query: `(features,)` weights, of any sign.
        k: the largest number of samples to return.
        cosine: compare directions: codes are scaled to length 1. If false, codes are used as they are.
        allowed: `(samples,)` booleans, true for the samples that may be returned; None allows all.

    Returns:
        Row numbers (int64) and scores (float64), best first; of equal scores the earlier row comes first.

    Example:
        >>> features = Features(np.array([[3.0, 0.0, 4.0], [0.0, 2.0, 2.0], [1.0, 0.0, 0.0]]))
        >>> rows, scores = rank(features, [1.0, 0.0, 0.0])
        >>> rows.tolist(), scores.round(3).tolist()
        ([2, 0], [1.0, 0.6])
    """
    if type(k) is not int or k < 1:
        raise InputError(f"k is {k!r}, expected a whole number, at least 1")
    scores = _codes(features, None, cosine) @ _checked_query(features, query)
    if allowed is not None:
        scores = np.where(checked_mask("allowed", allowed, len(features)), scores, 0)
    k = min(k, len(scores))
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    candidates = np.flatnonzero((scores >= least) & (scores > 0))
    rows = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
    return rows, scores[rows]


def contributions(features: Features, query: Any, row: int, cosine: bool = True) -> tuple[Array, Array]:
    """Return what each feature adds to the score of one sample: feature numbers, ascending, and float64 values.

    The values add up to the score that `rank` gives the sample.

    Example:
        >>> features = Features(np.array([[3.0, 0.0, 4.0]]))
        >>> numbers, values = contributions(features, [1.0, 1.0, 0.5], 0)
        >>> numbers.tolist(), values.round(3).tolist()
        ([0, 2], [0.6, 0.4])
    """
    code = _codes(features, [row], cosine)
    values = _checked_query(features, query)[code.indices] * code.data
    return code.indices[values != 0].astype(np.int64), values[values != 0]


def samples_without(features: Features, without: Collection[int]) -> Array:
    """Return `(samples,)` booleans: true where none of these features is active.

    Example:
        >>> samples_without(Features(np.array([[3.0, 0.0], [1.0, 1e-9], [1.0, 2.0]])), [1]).tolist()
        [True, True, False]
    """
    for feature in without:
        if not 0 <= feature < features.shape[1]:
            raise InputError(f"without is {feature}, expected a feature from 0 to {features.shape[1] - 1}")
    return np.asarray(np.diff(features.units[:, list(without)].indptr) == 0)


def samples_with(features: Features, require: Collection[int]) -> Array:
    """Return `(samples,)` booleans: true where all of these features are active.

    Example:
        >>> samples_with(Features(np.array([[3.0, 0.0], [1.0, 1e-9], [1.0, 2.0]])), [0, 1]).tolist()
        [False, False, True]
    """
    for feature in require:
        if not 0 <= feature < features.shape[1]:
            raise InputError(f"require is {feature}, expected a feature from 0 to {features.shape[1] - 1}")
    wanted = sorted(set(require))
    return np.asarray(np.diff(features.units[:, wanted].indptr) == len(wanted))


def checked_mask(name: str, mask: Any, rows: int) -> Array:
    """Check that a mask holds one boolean per row."""
    found: Array = np.asarray(mask)
    if found.dtype != bool or found.shape != (rows,):
        raise InputError(f"{name} is {found.dtype} of shape {found.shape}, expected {rows} booleans, one per row")
    return found


def _codes(features: Features, rows: Any, cosine: bool) -> Any:
    """Return codes rounded to float32, as float64. The indices of `units` are shared, because copying them is slow."""
    codes = features.units if cosine else features.codes
    codes = codes if rows is None else codes[rows]
    csr = codes if cosine else ranked_codes(codes, cosine=False)
    rounded = csr.data.astype(np.float32, copy=False).astype(np.float64)
    return sp.csr_array((rounded, csr.indices, csr.indptr), shape=csr.shape)


def _checked_query(features: Features, query: Any) -> Array:
    weights = np.asarray(query)
    if weights.shape != features.shape[1:] or weights.dtype.kind not in "fiu" or not np.isfinite(weights).all():
        found = f"query is {weights.dtype} of shape {weights.shape}"
        raise InputError(f"{found}, expected {features.shape[1]} finite numbers, one per feature")
    return weights.astype(np.float64)
