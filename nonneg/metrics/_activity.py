"""How often features are active, and how a sample's length is spread over them."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.metrics._codes import active_entries, as_csr, as_dense, row_lengths, row_numbers, unit_csr, unit_rows


@dataclass(frozen=True)
class Activity:
    """On how many samples features are active.

    Attributes:
        frequency: `(features,)` share of the samples a feature is active on.
        live: number of features active on at least one sample.
        dead: number of features active on none.
        dense: number of features active on more than the asked share of the samples.
    """

    frequency: Tensor
    live: int
    dead: int
    dense: int


def activity(z: Any, dense: float = 0.5) -> Activity:
    """Count features that are live, dead or active nearly everywhere; rows L2-normalised, active above 1e-5.

    Args:
        z: `(samples, features)`: torch, NumPy or SciPy sparse.
        dense: a feature active on more than this share of the samples is dense.

    Example:
        >>> activity(torch.tensor([[1.0, 0.0, 1.0], [2.0, 0.0, 0.0]])).frequency
        tensor([1.0000, 0.0000, 0.5000], dtype=torch.float64)
    """
    return activity_of(active_counts(z, "activity"), z.shape[0], dense)


def activity_of(counts: Tensor, samples: int, dense: float) -> Activity:
    """Of `(features,)` numbers of active samples."""
    frequency = counts.double() / samples
    live = int((counts > 0).sum())
    return Activity(frequency, live, len(counts) - live, int((frequency > dense).sum()))


def active_counts(z: Any, metric: str) -> Tensor:
    """`(features,)`: on how many samples each is active."""
    active = active_entries(z, metric)
    return torch.bincount(active.columns, minlength=active.shape[1])


def live_features(z: Any) -> Tensor:
    """`(features,)` booleans: active on at least one sample.

    Example:
        >>> live_features(torch.tensor([[1.0, 0.0], [2.0, 0.0]]))
        tensor([ True, False])
    """
    return active_counts(z, "live_features") > 0


def sparsity(z: Any) -> float:
    """Share of a sample's entries below 1e-5 in absolute value, averaged; rows L2-normalised first.

    Example:
        >>> sparsity(torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]))
        0.625
    """
    active = active_entries(z, "sparsity")
    samples, features = active.shape
    return 1 - len(active.rows) / (samples * features)


def hoyer(z: Any) -> float:
    """Hoyer's sparseness (√n − ‖z‖₁/‖z‖₂)/(√n − 1) of a row, averaged over those that are not empty; NaN if all are.

    0 where all entries are equal in absolute value, 1 where one is active. Unlike `sparsity` it has no threshold.

    Example:
        >>> hoyer(torch.tensor([[3.0, 0.0, 0.0, 0.0], [1.0, -1.0, 1.0, 1.0]]))
        0.5
    """
    rows = hoyer_rows(z, "hoyer")
    return float(rows.mean()) if len(rows) else float("nan")


def hoyer_rows(z: Any, metric: str) -> Tensor:
    """`(samples,)` in float64, without the empty ones."""
    if sp.issparse(z):
        csr = as_csr(z, metric)
        lengths = row_lengths(csr)
        sums = np.bincount(row_numbers(csr), weights=np.abs(csr.data), minlength=csr.shape[0])
        ratio = torch.from_numpy(sums[lengths > 0] / lengths[lengths > 0])
    else:
        units = unit_rows(as_dense(z, metric).double())
        ratio = units[units.any(1)].abs().sum(1)
    if z.shape[1] < 2:
        raise ValueError(f"{metric}: z has {z.shape[1]} feature, expected 2 or more")
    root = math.sqrt(z.shape[1])
    return (root - ratio) / (root - 1)


def expected_activation(z: Any) -> Tensor:
    """`(features,)` in float64: E[z_i / ‖z‖₂], by which features are ranked; empty rows count as zeros.

    Example:
        >>> expected_activation(torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
        tensor([0.3000, 0.9000], dtype=torch.float64)
    """
    return activation_sums(z, "expected_activation") / int(z.shape[0])


def activation_sums(z: Any, metric: str) -> Tensor:
    """`(features,)` in float64: the sum over samples of z / ‖z‖₂."""
    if sp.issparse(z):
        summed: Tensor = torch.from_numpy(np.asarray(unit_csr(z, metric).sum(0)))
        return summed
    return unit_rows(as_dense(z, metric).double()).sum(0)


def stored_bytes(z: Any) -> float:
    """Bytes a sample takes, on average: 8 an active feature where under half are active, else 4 a feature.

    Example:
        >>> stored_bytes(torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
        8.0
    """
    active = active_entries(z, "stored_bytes")
    samples, features = active.shape
    share = len(active.rows) / samples
    return 8 * share if share < features / 2 else 4.0 * features
