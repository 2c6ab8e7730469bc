"""Counts of the classes among the samples that a feature is active on, under one or several labellings."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.codes import active
from nonneg.metrics._codes import active_entries, canonical_csr, on_gpu


@dataclass(frozen=True)
class Tally:
    """Statistics of the classes among the active samples of each feature.

    Attributes:
        support: `(features,)` number of labelled samples that a feature is active on.
        commonest: `(features,)` number of those that belong to the commonest class.
        entropy: `(features,)` entropy of the shares of the classes, in nats; NaN for dead features.
        by_chance: `(features,)` mean of `commonest` under the other labellings; None without any.
    """

    support: Tensor
    commonest: Tensor
    entropy: Tensor
    by_chance: Tensor | None = None


def tally(z: Any, labellings: Tensor, metric: str) -> Tally:
    """Count the classes of active entries.

    Args:
        z: `(samples, features)`.
        labellings: `(labellings, samples)` classes from 0, the true ones first.
        metric: the name of the calling metric, for error messages.
    """
    classes, features = int(labellings.max()) + 1, z.shape[1]
    counts: Iterator[Tensor]
    if on_gpu(z):
        rows, columns = active_entries(z, metric)
        cells = ((y * features)[rows] + columns for y in labellings.to(rows.device))
        counts = (torch.bincount(cell, minlength=classes * features).view(classes, features) for cell in cells)
    else:
        by_feature = active(canonical_csr(z, metric)).T.tocsr().astype(np.int64)
        counts = (torch.from_numpy((by_feature @ _one_hot(y, classes)).toarray().T) for y in labellings.numpy())
    first, *others = map(tally_of, counts)
    chance = torch.stack([other.commonest for other in others]).double().mean(0) if others else None
    return replace(first, by_chance=chance)


def _one_hot(y: Any, classes: int) -> sp.csr_array:
    """Return `(samples, classes)`: 1 for the class of each sample."""
    return sp.csr_array((np.ones_like(y), y, np.arange(len(y) + 1)), shape=(len(y), classes))


def tally_of(counts: Tensor) -> Tally:
    """Return the tally of one labelling from `(classes, features)` counts."""
    support = counts.sum(0)
    entropy = torch.special.entr(counts / support.double()).sum(0)
    return Tally(support, counts.amax(0), entropy)
