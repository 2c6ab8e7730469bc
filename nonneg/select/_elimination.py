"""Features left out one after the other, as a linear probe can do without them."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.evaluate import fit_logistic
from nonneg.select._scores import Array

_SHARE = 8  # of the features that are left, one of so many goes before the probe is fitted again


def last_left_out(X: Any, labels: Any, alpha: float) -> Array:
    """`(features,)`: 1 for the feature that is left out first, and so on; 0 for those that never vary.

    Args:
        X: `(samples, features)`, NumPy or SciPy CSR; what is not 0 everywhere is made dense, in float64.
        labels: `(samples,)`; each different value is a class.
        alpha: strength of the probe's regularisation, beside its mean loss.

    Example:
        >>> label = np.arange(100) % 2
        >>> hint = label + np.random.default_rng(0).normal(size=100)
        >>> last_left_out(np.column_stack((hint, label, np.ones(100))), label, alpha=0.02)
        array([1., 2., 0.])
    """
    columns = np.unique(X.indices) if sp.issparse(X) else np.flatnonzero((X != 0).any(axis=0))
    part = X[:, columns]
    dense = np.asarray(part.toarray() if sp.issparse(part) else part, np.float64)
    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, varies = _standardised(torch.from_numpy(dense).to(place))
    columns = columns[varies]
    classes, numbers = np.unique(labels, return_inverse=True)
    y = torch.from_numpy(numbers).to(place)
    left = np.arange(len(columns))
    order: list[int] = []
    while len(left):
        out = _missed_least(x[:, torch.from_numpy(left).to(place)], y, len(classes), alpha, -(-len(left) // _SHARE))
        order += columns[left[out]].tolist()
        left = np.delete(left, out)
    ranks = np.zeros(X.shape[1])
    ranks[order] = 1 + np.arange(len(order))
    return ranks


def _standardised(x: Tensor) -> tuple[Tensor, Array]:
    """The columns that vary, of mean 0 and deviation 1, and which they are."""
    if not x.shape[1]:
        return x, np.zeros(0, bool)
    x = x / x.abs().amax(0).clamp(min=torch.finfo(x.dtype).tiny)  # squares of large and small numbers are none
    mean, spread = x.mean(0), x.std(0, correction=0)
    varies = spread > 1e-12 * mean.abs()  # what varies by rounding is constant
    return ((x - mean) / spread)[:, varies], varies.cpu().numpy()


def _missed_least(x: Tensor, y: Tensor, classes: int, alpha: float, count: int) -> list[int]:
    """Which features to leave out next, one after the other: without them the probe's loss rises least.

    The optimal brain surgeon's reckoning, with Böhning's bound for the curvature of the loss, which is nowhere more
    than half the features' covariance: the other weights make up for the one that goes, and so it matters little where
    they can. Of two features that say the same one goes, and the other matters all the more from then on.
    """
    fitted = fit_logistic(x, y, classes, 1 / (alpha * len(x))).weight
    covariance = x.T @ x / len(x)
    covariance.diagonal().add_(2 * alpha)
    weight, inverse = fitted.cpu().numpy().copy(), torch.linalg.inv(covariance).cpu().numpy().copy()
    out: list[int] = []
    for _ in range(count):
        free = inverse.diagonal().clip(min=np.finfo(float).tiny)
        missed = (weight**2).sum(0) / free
        missed[out] = np.inf
        # Of equals, and rounding makes no difference, the last: the first are kept.
        least = int(np.flatnonzero(missed <= missed.min() * (1 + 1e-9))[-1])
        share = inverse[least] / free[least]
        weight -= weight[:, least, None] * share
        inverse -= np.outer(inverse[least], share)
        out.append(least)
    return out
