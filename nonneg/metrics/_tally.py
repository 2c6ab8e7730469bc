"""Counts of the classes among the samples that a feature is active on, under one or several labellings."""

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


def tally(z: Any, known: Any, labellings: Any, metric: str) -> Tally:
    """Count the classes of active entries.

    Args:
        z: `(samples, features)`.
        known: `(samples,)` NumPy booleans: which samples are labelled.
        labellings: `(labellings, labelled samples)` NumPy integers: classes from 0, the true ones first.
        metric: the name of the calling metric, for error messages.
    """
    classes, features = int(labellings.max()) + 1, z.shape[1]
    if not on_gpu(z):
        return _tally_in_threads(active(canonical_csr(z, metric))[known].tocsc(), labellings, classes)
    entries = active_entries(z, metric)
    # The place of each sample among the labelled ones.
    places = torch.from_numpy(np.where(known, np.cumsum(known) - 1, -1)).to(entries.rows.device)[entries.rows]
    samples, columns = places[places >= 0], entries.columns[places >= 0]
    first, *others = (
        tally_of(torch.bincount(y[samples] * features + columns, minlength=classes * features).view(classes, features))
        for y in torch.from_numpy(labellings).to(samples.device).long()
    )
    chance = torch.stack([other.commonest for other in others]).double().mean(0) if others else None
    return replace(first, by_chance=chance)


def tally_of(counts: Tensor) -> Tally:
    """Return the tally of one labelling from `(classes, features)` counts."""
    support = counts.sum(0)
    entropy = torch.special.entr(counts / support.double()).sum(0)
    return Tally(support, counts.amax(0), entropy)


def _tally_in_threads(by_feature: sp.csc_array, labellings: Any, classes: int) -> Tally:
    from nonneg.metrics import _tally_kernel as kernel
    from nonneg.metrics._compiled import in_threads

    features = by_feature.shape[1]
    # Unsigned places spare the loops a test for negative indices, and one dtype means one compilation.
    starts, samples = by_feature.indptr.astype(np.int64), by_feature.indices.astype(np.uint32)
    # The cells of all labellings of a sample are adjacent.
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
