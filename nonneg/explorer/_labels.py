"""Labels of the samples that each feature is active on, counted once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nonneg.features import Features

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class LabelCounts:
    """How labels and features meet.

    Attributes:
        names: of the labels that occur.
        totals: `(labels,)` samples of each.
        counts: `(labels, features)` samples of each that a feature is active on.
        commonest: `(features,)` the label with the largest count; -1 where there is none.
        share: `(features,)` its share of the labelled samples the feature is active on; NaN where there are none.
        entropy: `(features,)` of all labels' shares, in nats; NaN where there are none.
    """

    names: tuple[str, ...]
    totals: Array
    counts: Array
    commonest: Array
    share: Array
    entropy: Array

    def of(self, feature: int) -> list[tuple[str, int, int]]:
        """Each label, how many of its samples the feature is active on, and how many there are; commonest first."""
        counts = self.counts[:, feature]
        order = np.argsort(-counts, kind="stable")
        return [(self.names[i], int(counts[i]), int(self.totals[i])) for i in order]


def label_counts(features: Features, units: sp.csr_array) -> LabelCounts | None:
    """Count labels where `units` has entries; None without labels.

    Example:
        >>> features = Features(np.eye(3, dtype=np.float32), labels=[0, 1, -1], label_names=("cat", "dog"))
        >>> label_counts(features, sp.csr_array(np.eye(3))).share
        array([ 1.,  1., nan])
    """
    labels = features.labels
    if labels is None or not (labels >= 0).any():
        return None
    is_known = labels >= 0
    found, numbers = np.unique(labels[is_known], return_inverse=True)
    number = np.full(len(labels), -1)
    number[is_known] = numbers
    of_entry = np.repeat(number, np.diff(units.indptr))
    entries = np.flatnonzero(of_entry >= 0)
    width = units.shape[1]
    flat = of_entry[entries] * width + units.indices[entries]
    counts = np.bincount(flat, minlength=len(found) * width).reshape(-1, width)
    support = counts.sum(axis=0)
    shares = np.divide(counts, support, out=np.full(counts.shape, np.nan), where=support > 0)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return LabelCounts(
        names=tuple(features.label_name(int(label)) for label in found),
        totals=np.bincount(numbers),
        counts=counts,
        commonest=np.where(support > 0, counts.argmax(axis=0), -1),
        share=shares.max(axis=0),
        entropy=0 - (shares * logs).sum(axis=0),  # not -0
    )
