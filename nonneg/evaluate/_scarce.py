"""Labels that are few or wrong: how much of the probe's accuracy is left."""

import numpy as np

from nonneg.errors import InputError
from nonneg.evaluate._probe import Probe, fit_probe, require_labels
from nonneg.features import Features

_LEAST = 5  # labels of a class that a probe is fitted on, at least


def few_labels(train: Features, test: Features, share: float, seed: int = 0) -> Probe:
    """The probe fitted on this share of each class, at least 5 samples of it.

    Args:
        train, test: features with labels.
        share: above 0, at most 1.
        seed: of the samples that keep their label, and of the probe's split.
    """
    if not 0 < share <= 1:
        raise InputError(f"share is {share}, expected a number above 0, at most 1")
    require_labels(train, "train", "few_labels")
    labels = np.asarray(train.labels)
    rng = np.random.default_rng(seed)
    kept = np.full(len(labels), -1)
    for value in np.unique(labels[labels >= 0]):
        rows = rng.permutation(np.flatnonzero(labels == value))
        rows = rows[: max(_LEAST, round(share * len(rows)))]
        kept[rows] = value
    return fit_probe(_relabelled(train, kept), seed).test(test)


def noisy_labels(train: Features, test: Features, rate: float, seed: int = 0) -> Probe:
    """The probe fitted after this share of the train labels was replaced by ones drawn evenly from all classes.

    Its regularisation is chosen on such labels, too: where few are right and there are not many, one draw may
    choose badly, and several tell more.

    Args:
        train, test: features with labels; those of `test` stay right.
        rate: 0 to below 1; some of the labels drawn are the right ones by chance.
        seed: of the samples, the labels they get, and the probe's split.
    """
    if not 0 <= rate < 1:
        raise InputError(f"rate is {rate}, expected 0 to below 1")
    require_labels(train, "train", "noisy_labels")
    labels = np.array(train.labels)
    rng = np.random.default_rng(seed)
    known = np.flatnonzero(labels >= 0)
    classes = np.unique(labels[known])
    wrong = rng.permutation(known)[: round(rate * len(known))]
    labels[wrong] = rng.choice(classes, len(wrong))
    return fit_probe(_relabelled(train, labels), seed).test(test)


def _relabelled(features: Features, labels: np.ndarray) -> Features:
    return Features(features.codes, labels=labels, label_names=features.label_names)
