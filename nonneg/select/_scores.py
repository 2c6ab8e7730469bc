"""What features are worth, one score each: pure functions of codes, sparse ones left sparse."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nonneg import metrics

Array = npt.NDArray[Any]
_ROWS = 16_384  # looked at together: codes may be a map of more than memory holds
_COLUMNS = 256


def expected_activation(X: Any, rectify: bool = True, absolute: bool = False) -> Array:
    """`(features,)`: mean over samples of f_i/‖f‖₂, an empty sample counting as zeros.

    Args:
        X: `(samples, features)`, NumPy or SciPy CSR.
        rectify: take max(f, 0) for f.
        absolute: take |f| for f; `rectify` is then not looked at.

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
    """`(features,)`: variance over the samples.

    Example:
        >>> variance(sp.csr_array(np.array([[2.0, 1.0], [0.0, 1.0]])))
        array([1., 0.])
    """
    samples, features = X.shape
    mean = sum((np.asarray(rows.sum(axis=0)).ravel() for rows in _blocks(X)), np.zeros(features)) / samples
    total = np.zeros(features)
    for rows in _blocks(X):
        if sp.issparse(rows):
            stored = np.bincount(rows.indices, minlength=features)
            total += np.bincount(rows.indices, np.square(rows.data - mean[rows.indices]), minlength=features)
            total += (rows.shape[0] - stored) * np.square(mean)
        else:
            total += np.square(rows - mean).sum(axis=0)
    return np.asarray(total / samples)


def mutual_information(X: Any, labels: Any, bins: int = 4) -> Array:
    """`(features,)`: mutual information, in nats, of a feature with the label.

    A feature is read as one of `bins + 1` values: zero, or which quantile of its own non-zero values.

    Args:
        X: `(samples, features)`, NumPy or SciPy CSR.
        labels: `(samples,)`; each different value is a class.
        bins: quantiles of the non-zero values.

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
    joint = counts / counts.sum()
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    seen = joint > 0
    return max(float((joint[seen] * np.log(joint[seen] / apart[seen])).sum()), 0.0)  # rounding may go below


def _blocks(X: Any) -> Iterator[Any]:
    """Some rows at a time, in float64; sparse ones with each entry stored once."""
    for start in range(0, X.shape[0], _ROWS):
        if sp.issparse(X):
            rows = sp.csr_array(X[start : start + _ROWS], dtype=np.float64)
            if not rows.has_canonical_format:
                rows = rows.copy()  # a slice shares memory with what was given
                rows.sum_duplicates()
            yield rows
        else:
            yield X[start : start + _ROWS].astype(np.float64)


def _columns(X: Any) -> Iterator[tuple[Array, Array]]:
    """Rows on which a feature is not zero and its values there, feature by feature."""
    if sp.issparse(X):
        by_feature = sp.csc_array(X, dtype=np.float64, copy=True)
        by_feature.sum_duplicates()
        by_feature.eliminate_zeros()
        for start, stop in zip(by_feature.indptr[:-1], by_feature.indptr[1:], strict=True):
            yield by_feature.indices[start:stop], by_feature.data[start:stop]
        return
    for start in range(0, X.shape[1], _COLUMNS):
        for values in np.ascontiguousarray(X[:, start : start + _COLUMNS].T, dtype=np.float64):
            rows = np.flatnonzero(values)
            yield rows, values[rows]
