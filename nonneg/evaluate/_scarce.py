"""The linear probe with few or noisy labels."""

import numpy as np
import numpy.typing as npt

from nonneg.errors import InputError
from nonneg.evaluate._probe import Probe, fit_probe, require_labels
from nonneg.features import Features
from nonneg.labels import UNLABELLED, is_labelled

_LEAST = 5  # labels kept per class


def few_labels(train: Features, test: Features, share: float, seed: int = 0) -> Probe:
    """Fit the probe on a share of the samples of each class, at least 5 per class.

    Args:
        train, test: features with labels.
        share: above 0, at most 1.
        seed: decides which samples keep their label, and the probe's split.
    """
    if not 0 < share <= 1:
        raise InputError(f"share is {share}, expected a number above 0, at most 1")
    require_labels(train, "train", "few_labels")
    labels = np.asarray(train.labels)
    rng = np.random.default_rng(seed)
    kept = np.full(len(labels), UNLABELLED)
    for value in np.unique(labels[is_labelled(labels)]):
        rows = rng.permutation(np.flatnonzero(labels == value))
        kept[rows[: max(_LEAST, round(share * len(rows)))]] = value
    return fit_probe(_relabelled(train, kept), seed).test(test)


def noisy_labels(train: Features, test: Features, rate: float, seed: int = 0) -> Probe:
    """Fit the probe after replacing a share of the train labels by labels drawn uniformly from all classes.

    The regularisation strength is chosen with noisy labels, too: average several seeds if few labels are correct.

    Args:
        train, test: features with labels; those of `test` are not changed.
        rate: from 0 to below 1; some of the drawn labels are correct by chance.
        seed: decides which labels are replaced, by what, and the probe's split.
    """
    if not 0 <= rate < 1:
        raise InputError(f"rate is {rate}, expected 0 to below 1")
    require_labels(train, "train", "noisy_labels")
    labels = np.array(train.labels)
    rng = np.random.default_rng(seed)
    known = np.flatnonzero(is_labelled(labels))
    classes = np.unique(labels[known])
    replaced = rng.permutation(known)[: round(rate * len(known))]
    labels[replaced] = rng.choice(classes, len(replaced))
    return fit_probe(_relabelled(train, labels), seed).test(test)


def _relabelled(features: Features, labels: npt.NDArray[np.int64]) -> Features:
    return Features(features.codes, labels=labels, label_names=features.label_names)
