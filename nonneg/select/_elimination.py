"""Features left out one after the other, as a linear probe can do without them."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.evaluate import fit_logistic
from nonneg.select._scores import Array, variance

_SHARE = 8  # of the features that are left, one of so many goes before the probe is fitted again


def last_left_out(X: Any, labels: Any, alpha: float, device: str | torch.device | None = None) -> Array:
    """`(features,)`: 1 for the feature that is left out first, and so on; 0 for those that never vary.

    Args:
        X: `(samples, features)`, NumPy or SciPy CSR; what varies of it is made dense, in float64.
        labels: `(samples,)`; each different value is a class.
        alpha: strength of the probe's regularisation, beside its mean loss.
        device: where to compute; None is a CUDA device if there is one.

    Example:
        >>> label = np.arange(100) % 2
        >>> hint = label + np.random.default_rng(0).normal(size=100)
        >>> last_left_out(np.column_stack((hint, label, np.ones(100))), label, alpha=0.02)
        array([1., 2., 0.])
    """
    columns = np.flatnonzero(variance(X) > 0)
    part = X[:, columns]
    dense = np.asarray(part.toarray() if sp.issparse(part) else part, np.float64)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    x = torch.from_numpy(dense).to(place)
    x = (x - x.mean(0)) / x.std(0, correction=0)
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
        least = len(missed) - 1 - int(missed[::-1].argmin())  # of equals the last: the first are kept
        share = inverse[least] / free[least]
        weight -= weight[:, least, None] * share
        inverse -= np.outer(inverse[least], share)
        out.append(least)
    return out
