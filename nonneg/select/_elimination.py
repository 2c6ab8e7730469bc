"""Backward elimination: remove the features that a linear probe needs least."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.codes import dense
from nonneg.devices import choose_device
from nonneg.evaluate import Standardiser, fit_logistic
from nonneg.select._scores import Array

_SHARE = 8  # one eighth of the remaining features is removed before the probe is fitted again


def elimination_ranks(X: Any, labels: Any, alpha: float) -> Array:
    """Return the order of removal `(features,)`: 1 for the feature removed first; 0 for constant features.

    Args:
        X: `(samples, features)`, NumPy or SciPy CSR; columns that are not all 0 are made dense, in float64.
        labels: `(samples,)`; each distinct value is a class.
        alpha: regularisation strength of the probe, relative to its mean loss.

    Example:
        >>> label = np.arange(100) % 2
        >>> hint = label + np.random.default_rng(0).normal(size=100)
        >>> elimination_ranks(np.column_stack((hint, label, np.ones(100))), label, alpha=0.02)
        array([1., 2., 0.])
    """
    columns = np.unique(X.indices) if sp.issparse(X) else np.flatnonzero((X != 0).any(axis=0))
    device = choose_device()
    x = torch.from_numpy(np.asarray(dense(X[:, columns]), np.float64)).to(device)
    standardise = Standardiser(x)
    x, columns = standardise(x)[:, standardise.varies], columns[standardise.varies.cpu().numpy()]
    classes, numbers = np.unique(labels, return_inverse=True)
    y = torch.from_numpy(numbers).to(device)
    remaining = np.arange(len(columns))
    order: list[int] = []
    while len(remaining):
        some = x[:, torch.from_numpy(remaining).to(device)]
        removed = _least_needed(some, y, len(classes), alpha, -(-len(remaining) // _SHARE))
        order += columns[remaining[removed]].tolist()
        remaining = np.delete(remaining, removed)
    ranks = np.zeros(X.shape[1])
    ranks[order] = 1 + np.arange(len(order))
    return ranks


def _least_needed(x: Tensor, y: Tensor, classes: int, alpha: float, count: int) -> list[int]:
    """Return the features to remove next, in order: those whose removal raises the probe's loss least.

    Optimal brain surgeon with Böhning's bound on the Hessian, half the features' covariance: the remaining weights
    compensate for a removed feature as far as they can. Of two redundant features one is removed, and the other
    becomes more important.
    """
    fitted = fit_logistic(x, y, classes, 1 / (alpha * len(x))).weight
    covariance = x.T @ x / len(x)
    covariance.diagonal().add_(2 * alpha)
    weight, inverse = fitted.cpu().numpy().copy(), torch.linalg.inv(covariance).cpu().numpy().copy()
    removed: list[int] = []
    for _ in range(count):
        free = inverse.diagonal().clip(min=np.finfo(float).tiny)
        increase = (weight**2).sum(0) / free
        increase[removed] = np.inf
        # The last of several equally good features, up to rounding: the first ones are kept.
        least = int(np.flatnonzero(increase <= increase.min() * (1 + 1e-9))[-1])
        share = inverse[least] / free[least]
        weight -= weight[:, least, None] * share
        inverse -= np.outer(inverse[least], share)
        removed.append(least)
    return removed
