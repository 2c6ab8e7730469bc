"""How often each class is among the samples a feature is active on, under one or several labellings."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.codes import EPSILON
from nonneg.metrics._codes import active_entries, canonical_csr, on_gpu


@dataclass(frozen=True)
class Tally:
    """Counts of classes, of which metrics need no more than this.

    Attributes:
        support: `(features,)` labelled samples a feature is active on.
        commonest: `(features,)` how many of them the commonest class has.
        entropy: `(features,)` in nats, of the classes' shares; NaN where dead.
        by_chance: `(features,)` `commonest` under other labellings, their mean; None without any.
    """

    support: Tensor
    commonest: Tensor
    entropy: Tensor
    by_chance: Tensor | None = None


def tally(z: Any, known: Any, labellings: Any, metric: str) -> Tally:
    """Count the classes of active entries, rows L2-normalised.

    Args:
        z: `(samples, features)`.
        known: `(samples,)` booleans, which samples are labelled; NumPy.
        labellings: `(labellings, labelled samples)` classes from 0 on, the true ones first; NumPy.
        metric: who asks, for errors.
    """
    classes, features = int(labellings.max()) + 1, z.shape[1]
    # Where a sample is among the labelled ones.
    places = np.where(known, np.cumsum(known) - 1, -1)
    if not on_gpu(z):
        return _tally_in_threads(canonical_csr(z, metric), places, labellings, classes)
    active = active_entries(z, metric)
    samples = torch.from_numpy(places).to(active.rows.device)[active.rows]
    samples, columns = samples[samples >= 0], active.columns[samples >= 0]
    on_device = torch.from_numpy(labellings).to(active.rows.device).long()
    first, *others = (
        tally_of(torch.bincount(y[samples] * features + columns, minlength=classes * features).view(classes, features))
        for y in on_device
    )
    chance = torch.stack([other.commonest for other in others]).double().mean(0) if others else None
    return replace(first, by_chance=chance)


def tally_of(counts: Tensor) -> Tally:
    """Of `(classes, features)` counts, one labelling."""
    support = counts.sum(0)
    entropy = torch.special.entr(counts / support.double()).sum(0)
    return Tally(support, counts.amax(0), entropy)


def _tally_in_threads(csr: sp.csr_array, places: Any, labellings: Any, classes: int) -> Tally:
    from nonneg.metrics import _tally_kernel as kernel
    from nonneg.metrics._compiled import in_threads

    features = csr.shape[1]
    # Places in unsigned numbers spare the loops a test for negative ones.
    columns = csr.indices.view(f"u{csr.indices.itemsize}")
    starts, samples = kernel.by_feature(csr.indptr, columns, csr.data, places, features, EPSILON)
    # All labellings of a sample lie side by side.
    cells = labellings.T + classes * np.arange(len(labellings))
    cells = np.ascontiguousarray(cells, np.uint16 if cells.max() < 2**16 else np.uint64)
    commonest, entropy = np.zeros((features, len(labellings)), np.int64), np.full(features, np.nan)
    in_threads(
        lambda first, last: kernel.count(starts, samples, cells, classes, first, last, commonest, entropy),
        features,
        256,
    )
    support, true, mixed = (torch.from_numpy(part) for part in (np.diff(starts), commonest[:, 0].copy(), entropy))
    chance = torch.from_numpy(commonest[:, 1:].mean(1)) if len(labellings) > 1 else None
    return Tally(support, true, mixed, chance)
