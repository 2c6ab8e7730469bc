"""Which features explain the others: greedy selection of columns, without labels."""

from typing import Any

import numpy as np

from nonneg.codes import dense
from nonneg.errors import InputError
from nonneg.processes import memory
from nonneg.select._scores import Array

_NOTHING = 1e-9  # of the largest variance: what is left of a feature that the chosen ones explain


def reconstruction_scores(X: Any, keep: int) -> Array:
    """Rank features by how much of the variance of all features they explain linearly, after those chosen before.

    Memory grows with the square of the number of features, time with that and `keep`.

    Args:
        X: `(samples, features)`, NumPy or SciPy CSR.
        keep: number of features to choose one by one; the others are ranked by what they would explain next.

    Returns:
        `(features,)`: the first choice has the largest score, the number of features.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> X = np.column_stack([2 * x[:, 0], x])  # the first two explain each other
        >>> reconstruction_scores(X, 2)
        array([3., 1., 2.])
    """
    covariance = _covariance(X)
    explained = np.square(covariance).sum(0)  # of all features, by each of them, times its own variance
    variance = np.diag(covariance).copy()
    least = _NOTHING * variance.max(initial=0.0)
    directions = np.empty((len(variance), keep))
    order: list[int] = []
    while len(order) < keep and variance.max() > least:
        best = int(_gains(explained, variance, least).argmax())
        chosen = directions[:, : len(order)]
        # What the chosen ones leave of the covariance is not stored: each step needs one column and one product of it.
        v = (covariance[:, best] - chosen @ chosen[best]) / np.sqrt(variance[best])
        product = covariance @ v - chosen @ (chosen.T @ v)
        explained += np.square(v) * (v @ v) - 2 * v * product
        variance -= np.square(v)
        variance[best] = 0.0
        directions[:, len(order)] = v
        order.append(best)
    rest = np.setdiff1d(np.arange(len(variance)), order)
    later = rest[np.argsort(-_gains(explained, variance, least)[rest], kind="stable")]
    scores = np.empty(len(variance))
    scores[[*order, *later]] = np.arange(len(variance), 0, -1)
    return scores


def _gains(explained: Array, variance: Array, least: float) -> Array:
    return np.where(variance > least, explained / np.maximum(variance, least), -1.0)


def _covariance(X: Any) -> Array:
    needed = 2 * 8 * X.shape[1] ** 2
    if needed > memory():
        found = f"{X.shape[1]:,} features, whose covariance takes {needed / 1e9:,.0f} GB"
        raise InputError(f"reconstruction: X has {found}, expected at most {memory() / 1e9:,.0f} GB, the memory left")
    X = X.astype(np.float64)
    mean = np.asarray(X.mean(0)).ravel()
    return np.asarray(dense(X.T @ X) / X.shape[0] - np.outer(mean, mean))
