"""Features to measure: some to fit probes on, some to evaluate them on."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import train_test_split

from nonneg.errors import InputError
from nonneg.features import Features, find_features
from nonneg.labels import is_labelled, label_numbers
from nonneg.messages import counted
from nonneg.tables import as_floats, open_vectors, read_column, split_name

Rows = npt.NDArray[np.int64]
_TEST_SHARE = 0.2
_LEAST_LABELLED = 10  # to split them into some to fit on and some to evaluate on


@dataclass(frozen=True)
class Subject:
    """One thing to measure: features, or a trained run of one seed.

    Attributes:
        path: where it was found.
        seed: the seed of its training, or None.
        whole: layer to the features whose structure is measured.
        train, test: layer to the features that probes are fitted on and evaluated on; empty if there are no labels.
        protocol: how `train` and `test` were made; empty if they are.
        samples: a digest of the ids and labels of `whole`, in order; subjects with the same digest can be compared
            sample by sample.
        factors: the generating factors of the samples of `whole`, if they are known.
        split: the part of a published division of each sample of `train` and then of `test`: 0 for train, 1 for
            validation, 2 for test, -1 for none; None if there is no such division.
        missing: why no probe can be fitted, if `train` is empty.
        origin: which samples a run was measured on, to follow their number.
    """

    path: str
    seed: int | None
    whole: Mapping[str, Features]
    train: Mapping[str, Features]
    test: Mapping[str, Features]
    protocol: str
    samples: str
    factors: Mapping[str, Any] = field(default_factory=dict)
    split: Rows | None = None
    missing: str = ""
    origin: str = ""


def split_features(
    features: Features, path: str = "features", train: Features | None = None, train_path: str = "other features"
) -> Subject:
    """Divide features into some to fit probes on and some to evaluate them on.

    Args:
        features: what is measured.
        path: what messages call them.
        train: fit on these, and evaluate on all of `features`; if None, 80% of the labelled rows are for fitting.
        train_path: what messages call `train`.
    """
    layer, samples = features.layer, sample_digest(features)
    whole = {layer: features}
    if features.labels is None or not is_labelled(features.labels).any():
        return Subject(path, None, whole, {}, {}, "", samples, missing="no labels")
    if train is not None:
        if train.shape[1] != features.shape[1]:
            found = f"{train_path} has {train.shape[1]} features and {path} {features.shape[1]}"
            raise InputError(f"{found}, expected the same number, from one model")
        return Subject(path, None, whole, {layer: train}, whole, f"probes fitted on {train_path}", samples)
    labels = np.asarray(features.labels)
    rows = np.flatnonzero(is_labelled(labels))
    _, counts = np.unique(labels[rows], return_counts=True)
    several = int((counts > 1).sum())
    if len(rows) < _LEAST_LABELLED or several < 2:
        few = f"only {counted(len(rows), 'labelled sample')} ({_LEAST_LABELLED} are needed)"
        classes = "only 1 class" if several else "no class"
        alike = f"{classes} with two or more labelled samples (2 such classes are needed)"
        return Subject(path, None, whole, {}, {}, "", samples, missing=few if len(rows) < _LEAST_LABELLED else alike)
    fit, kept = split_rows(labels, rows)
    train_part, test_part = (
        {layer: Features(features.codes[part], labels=labels[part], label_names=features.label_names)}
        for part in (fit, kept)
    )
    protocol = (
        f"probes fitted on {len(fit):,} labelled rows and evaluated on the other {len(kept):,}, split with seed 0"
    )
    return Subject(path, None, whole, train_part, test_part, protocol, samples)


def split_rows(labels: Any, rows: Rows, seed: int = 0) -> tuple[Rows, Rows]:
    """Split rows into 80% for fitting and 20% for evaluation, stratified by label; each part is in ascending order.

    A class with a single row is only in the first part; every other class is in both.

    Args:
        labels: one label per sample; `rows` of them are used.
        rows: `(rows,)` the rows to split.
        seed: decides which rows go where.

    Example:
        >>> labels = np.array([0, 0, 0, 1, 1, 2])
        >>> fit, kept = split_rows(labels, np.arange(6))
        >>> labels[fit], labels[kept]
        (array([0, 0, 1, 2]), array([0, 1]))
    """
    classes, counts = np.unique(labels[rows], return_counts=True)
    if not (counts > 1).any():
        raise InputError(
            f"{len(rows)} labelled rows have {len(rows)} different labels, expected several rows per class"
        )
    single = np.isin(labels[rows], classes[counts == 1])
    several = rows[~single]
    size = max(math.ceil(_TEST_SHARE * len(several)), int((counts > 1).sum()))
    fit, kept = train_test_split(several, test_size=size, stratify=labels[several], random_state=seed)
    # The shares of rare classes are rounded, often to none.
    missing = fit[~np.isin(labels[fit], labels[kept])]
    moved = missing[np.unique(labels[missing], return_index=True)[1]]
    return np.setdiff1d(np.concatenate((fit, rows[single])), moved), np.sort(np.concatenate((kept, moved)))


def sample_digest(features: Features) -> str:
    """Return a digest of ids and labels, in order."""
    ids = features.samples["id"].to_pylist() if "id" in features.samples.column_names else range(len(features))
    labels = features.labels if features.labels is not None else np.zeros(0)
    return hashlib.sha256("\0".join(map(str, ids)).encode() + b"\1" + np.asarray(labels).tobytes()).hexdigest()


def is_vector_file(path: str) -> bool:
    """Whether a path, perhaps with the name of an array, is a file of vectors."""
    return split_name(path)[0].is_file()


def open_features(path: str, labels: str | None = None) -> Features:
    """Open features in a folder, beside a run's folder, or a file of vectors.

    Args:
        path: a features folder, a run's folder, or a file of vectors.
        labels: a file with one label per row, for a file of vectors.
    """
    if is_vector_file(path):
        vectors = open_vectors(path, beside=(labels,))
        numbers, names = (
            (None, ()) if labels is None else label_numbers(read_column(labels, len(vectors), path), labels)
        )
        try:
            return Features(as_floats(vectors), labels=numbers, label_names=names)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    if labels is not None:
        raise InputError(f"labels is {labels}, expected none for {path}, which is not a file of vectors")
    return Features.load(find_features(split_name(path)[0]))
