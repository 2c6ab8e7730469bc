"""How often features are active, and how concentrated the rows are."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nonneg.metrics._codes import active_entries, unit_codes


@dataclass(frozen=True)
class Activity:
    """On how many samples features are active.

    Attributes:
        frequency: `(features,)` share of samples that each feature is active on.
        live: number of features that are active on at least one sample.
        dead: number of features that are active on no sample.
        dense: number of features that are active on more than the given share of samples.
    """

    frequency: Tensor
    live: int
    dead: int
    dense: int


def activity(z: Any, dense: float = 0.5) -> Activity:
    """Count live, dead and dense features.

    An entry is active if its absolute value exceeds 1e-5 of its row's length.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix.
        dense: a feature is dense if it is active on more than this share of the samples.

    Returns:
        The frequency of each feature, and the counts.

    Example:
        >>> result = activity(torch.tensor([[1.0, 0.0, 1.0], [2.0, 0.0, 0.0]]))
        >>> result.frequency
        tensor([1.0000, 0.0000, 0.5000], dtype=torch.float64)
        >>> result.live, result.dead, result.dense
        (2, 1, 1)
    """
    return activity_of(active_counts(z, "activity"), z.shape[0], dense)


def activity_of(counts: Tensor, samples: int, dense: float) -> Activity:
    """Return the result of `activity` from `(features,)` counts of active samples."""
    frequency = counts.double() / samples
    live = int((counts > 0).sum())
    return Activity(frequency, live, len(counts) - live, int((frequency > dense).sum()))


def active_counts(z: Any, metric: str) -> Tensor:
    """Return `(features,)`: the number of samples that each feature is active on."""
    return torch.bincount(active_entries(z, metric)[1], minlength=z.shape[1])


def live_features(z: Any) -> Tensor:
    """Return `(features,)` booleans: whether a feature is active on at least one sample.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix.

    Example:
        >>> live_features(torch.tensor([[1.0, 0.0], [2.0, 0.0]]))
        tensor([ True, False])
    """
    return active_counts(z, "live_features") > 0


def sparsity(z: Any) -> float:
    """Return the share of entries that are inactive.

    An entry is active if its absolute value exceeds 1e-5 of its row's length.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix.

    Example:
        >>> sparsity(torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]))
        0.625
    """
    rows, _ = active_entries(z, "sparsity")
    return 1 - len(rows) / int(z.shape[0] * z.shape[1])


def hoyer(z: Any) -> float:
    """Return Hoyer's sparseness (√n − ‖z‖₁/‖z‖₂)/(√n − 1), averaged over rows that are not empty.

    It is 0 for a row whose n entries have equal absolute values and 1 for a row with a single active entry. Unlike
    `sparsity` it needs no threshold. The result is NaN if all rows are empty.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix with at least 2 features.

    Example:
        >>> hoyer(torch.tensor([[3.0, 0.0, 0.0, 0.0], [1.0, -1.0, 1.0, 1.0]]))
        0.5
    """
    rows = hoyer_rows(z, "hoyer")
    return float(rows.mean()) if len(rows) else float("nan")


def hoyer_rows(z: Any, metric: str) -> Tensor:
    """Return Hoyer's sparseness of each row that is not empty, in float64."""
    sums = torch.as_tensor(abs(unit_codes(z, metric)).sum(1))
    if z.shape[1] < 2:
        raise ValueError(f"{metric}: z has {z.shape[1]} feature, expected 2 or more")
    root = math.sqrt(z.shape[1])
    return (root - sums[sums > 0]) / (root - 1)


def expected_activation(z: Any) -> Tensor:
    """Return E[z_i / ‖z‖₂] of each feature i, `(features,)` in float64; empty rows count as zeros.

    Features are often ranked by it.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix.

    Example:
        >>> expected_activation(torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
        tensor([0.3000, 0.9000], dtype=torch.float64)
    """
    return activation_sums(z, "expected_activation") / int(z.shape[0])


def activation_sums(z: Any, metric: str) -> Tensor:
    """Return `(features,)` in float64: the sum over samples of z / ‖z‖₂."""
    return torch.as_tensor(unit_codes(z, metric).sum(0))


def stored_bytes(z: Any) -> float:
    """Return the mean number of bytes that a sample takes on disk.

    A sparse matrix takes 8 bytes per active entry (a float32 value and an int32 column), a dense one 4 bytes per
    feature. Codes count as sparse if less than half of their entries are active.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix.

    Example:
        >>> stored_bytes(torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
        8.0
    """
    rows, _ = active_entries(z, "stored_bytes")
    per_sample, features = len(rows) / int(z.shape[0]), int(z.shape[1])
    return 8 * per_sample if per_sample < features / 2 else 4.0 * features
