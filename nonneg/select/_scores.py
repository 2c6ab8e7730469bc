"""Scores of features: pure functions of codes; sparse codes stay sparse."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import entr
from sklearn.preprocessing import StandardScaler

from nonneg import metrics
from nonneg.codes import canonical

Array = npt.NDArray[Any]
_ROWS = 16_384  # rows per block: codes may be a memory map larger than memory
_COLUMNS = 256


def expected_activation(X: Any, rectify: bool = True, absolute: bool = False) -> Array:
    """Return the mean over samples of f_i/‖f‖₂, `(features,)`; empty samples count as zeros.

    Args:
        X: `(samples, features)`, NumPy or SciPy CSR.
        rectify: replace f by max(f, 0).
        absolute: replace f by |f|; `rectify` is then ignored.

    Example:
        >>> expected_activation(np.array([[3.0, -4.0], [1.0, 0.0]]))
        array([1., 0.])
        >>> expected_activation(np.array([[3.0, -4.0], [1.0, 0.0]]), absolute=True)
        array([0.8, 0.4])
    """
    total = np.zeros(X.shape[1])
    for rows in _blocks(X):
        if absolute:
            rows = abs(rows)
        elif rectify:
            rows = rows.maximum(0) if sp.issparse(rows) else np.maximum(rows, 0)
        total += rows.shape[0] * metrics.expected_activation(rows).numpy()
    return np.asarray(total / X.shape[0])


def variance(X: Any) -> Array:
    """Return the variance over the samples, `(features,)`.

    Example:
        >>> variance(sp.csr_array(np.array([[2.0, 1.0], [0.0, 1.0]])))
        array([1., 0.])
    """
    scaler = StandardScaler(with_mean=False)
    for rows in _blocks(X):
        scaler.partial_fit(rows)
    return np.asarray(scaler.var_)


def mutual_information(X: Any, labels: Any, bins: int = 4) -> Array:
    """Return the mutual information of each feature with the label in nats, `(features,)`.

    A feature has `bins + 1` values: zero, or the quantile among its non-zero values.

    Args:
        X: `(samples, features)`, NumPy or SciPy CSR.
        labels: `(samples,)`; each distinct value is a class.
        bins: number of quantiles of the non-zero values.

    Example:
        >>> found = mutual_information(np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), [0, 0, 1, 1])
        >>> bool(np.isclose(found[0], np.log(2))), float(found[1])
        (True, 0.0)
    """
    classes, y = np.unique(labels, return_inverse=True)
    totals = np.bincount(y)
    shares = np.arange(1, bins) / bins
    scores = np.zeros(X.shape[1])
    for feature, (rows, values) in enumerate(_columns(X)):
        if len(values):
            bin_of = np.searchsorted(np.quantile(values, shares), values, side="right")
            counts = np.bincount(bin_of * len(classes) + y[rows], minlength=bins * len(classes))
            counts = counts.reshape(bins, len(classes))
            scores[feature] = _information(np.vstack((totals - counts.sum(axis=0), counts)))
    return scores


def _information(counts: Array) -> float:
    """Return the mutual information in nats of a table of counts: H(row) + H(column) - H(row, column)."""
    joint = counts / counts.sum()
    found = entr(joint.sum(axis=0)).sum() + entr(joint.sum(axis=1)).sum() - entr(joint).sum()
    return max(float(found), 0.0)  # rounding may make it negative


def _blocks(X: Any) -> Iterator[Any]:
    """Yield blocks of rows in float64; sparse blocks in canonical format."""
    for start in range(0, X.shape[0], _ROWS):
        if sp.issparse(X):
            yield canonical(sp.csr_array(X[start : start + _ROWS], dtype=np.float64))
        else:
            yield X[start : start + _ROWS].astype(np.float64)


def _columns(X: Any) -> Iterator[tuple[Array, Array]]:
    """Yield, for each feature, the rows on which it is not zero and its values there."""
    for start in range(0, X.shape[1], _COLUMNS):
        by_feature = sp.csc_array(X[:, start : start + _COLUMNS], dtype=np.float64, copy=True)
        by_feature.sum_duplicates()
        by_feature.eliminate_zeros()
        for first, last in itertools.pairwise(by_feature.indptr):
            yield by_feature.indices[first:last], by_feature.data[first:last]
