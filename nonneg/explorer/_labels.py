"""Label counts for the active samples of each feature."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from nonneg.features import Features
from nonneg.labels import is_labelled
from nonneg.payload import Array


@dataclass(frozen=True)
class LabelCounts:
    """How often labels and active features occur together.

    Attributes:
        names: the names of the labels that occur.
        numbers: `(labels,)` their numbers in the features.
        totals: `(labels,)` number of samples per label.
        counts: `(labels, features)` number of samples per label on which a feature is active; sparse, for thousands
            of labels.
        most_common: `(features,)` index of the label with the largest count, or -1 without labelled samples.
        share: `(features,)` its share of the feature's labelled active samples, or NaN without any.
        entropy: `(features,)` entropy of the label shares in nats, or NaN without labelled samples.
    """

    names: tuple[str, ...]
    numbers: Array
    totals: Array
    counts: sp.csc_array
    most_common: Array
    share: Array
    entropy: Array


def label_counts(features: Features) -> LabelCounts | None:
    """Count labels over the active samples of each feature; None without labels.

    Example:
        >>> features = Features(np.eye(3, dtype=np.float32), labels=[0, 1, -1], label_names=("cat", "dog"))
        >>> label_counts(features).share
        array([ 1.,  1., nan])
    """
    labels = features.labels
    if labels is None or not (is_known := is_labelled(labels)).any():
        return None
    found, numbers = np.unique(labels[is_known], return_inverse=True)
    one_hot = sp.csr_array((np.ones(len(numbers), int), (numbers, np.flatnonzero(is_known))), (len(found), len(labels)))
    counts = sp.csc_array(one_hot @ features.units.astype(bool).astype(int))
    counts.sort_indices()
    support = counts.sum(axis=0)
    most = counts.max(axis=0).toarray()
    entries = np.repeat(np.arange(len(support)), np.diff(counts.indptr))
    shares = counts.data / support[entries]
    entropy = 0 - np.bincount(entries, shares * np.log(shares), len(support))  # 0 - x instead of -x avoids -0.0
    return LabelCounts(
        names=tuple(features.label_name(int(label)) for label in found),
        numbers=found,
        totals=np.bincount(numbers),
        counts=counts,
        most_common=np.where(support > 0, np.asarray(counts.argmax(axis=0)).ravel(), -1),
        share=np.divide(most, support, out=np.full(len(support), np.nan), where=support > 0),
        entropy=np.where(support > 0, entropy, np.nan),
    )
