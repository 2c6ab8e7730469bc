"""What can be measured: a trained run, a features folder, a file of vectors, all as train and test features."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from nonneg.errors import InputError
from nonneg.features import Features, find_features
from nonneg.labels import label_numbers
from nonneg.modalities import Source, UndividedError
from nonneg.models import Layer, Model, load, source_for
from nonneg.tables import as_float32, open_vectors, read_column, split_name
from nonneg.training import TrainConfig, load_recipe

_TEST_SHARE = 0.2


@dataclass(frozen=True)
class Trained:
    """A run's model with the images it is measured on."""

    model: Model
    config: TrainConfig
    train: Source
    test: Source


@dataclass(frozen=True)
class Subject:
    """One thing to measure, of one seed.

    Attributes:
        path: where it was found.
        seed: of its training, or None.
        whole: layer to the features whose structure is looked at.
        train, test: layer to the features that a probe is fitted on and told.
        trained: its model and images, where it is a run.
        protocol: how train and test came about, or what it lacks where there are none.
        samples: a digest of the ids and labels of `whole`, in order: of subjects that share it, samples can be paired.
    """

    path: str
    seed: int | None
    whole: Mapping[Layer, Features]
    train: Mapping[Layer, Features]
    test: Mapping[Layer, Features]
    trained: Trained | None
    protocol: str
    samples: str


def is_run(path: str) -> bool:
    """Whether it is the folder of a trained run, which can be embedded."""
    return (Path(path) / "config.toml").is_file()


def is_file_of_vectors(path: str) -> bool:
    """Whether it is a file, whose labels are in a file of their own."""
    return split_name(path)[0].is_file()


def open_subject(
    path: str,
    train: str | None = None,
    labels: str | None = None,
    data: str | None = None,
    device: str | None = None,
    *,
    train_labels: str | None = None,
) -> Subject:
    """Find and open what was named.

    Args:
        path: a trained run's folder, a features folder, a run of `nonneg convert`, or a file of vectors.
        train: features to fit probes on, where `path` holds the test features alone.
        labels: a file of labels, one a row, for a file of vectors.
        data: images to measure a run on instead of those it was trained on; with splits train and test.
        device: where to embed; a CUDA device if there is one.
        train_labels: a file of labels for `train`, where that is a file of vectors.
    """
    if is_run(path):
        for name, given in (("train", train), ("labels", labels), ("train_labels", train_labels)):
            if given is not None:
                raise InputError(f"{name} is given for the run {path}, which has its own, expected none")
        return _of_run(path, data, device)
    features = open_features(path, labels)
    if data is not None:
        raise InputError(f"data is given for {path}, which is no trained run, expected none")
    if train is None and train_labels is not None:
        raise InputError(f"train_labels is {train_labels} without train, expected both or neither")
    fitted_on = None if train is None else open_features(train, train_labels)
    return parted(features, path, fitted_on, train or "")


def parted(features: Features, path: str, train: Features | None = None, train_path: str = "other features") -> Subject:
    """Features to fit on and features to tell: `train` and all of them, or of their labelled rows 80% and the rest."""
    layer: Layer = "encoder" if features.provenance.get("layer") == "encoder" else "projector"
    whole, samples = {layer: features}, _digest(features)
    if features.labels is None or not (features.labels >= 0).any():
        return Subject(path, None, whole, {}, {}, None, "without labels", samples)
    if train is not None:
        if train.shape[1] != features.shape[1]:
            found = f"{train_path} has {train.shape[1]} features and {path} {features.shape[1]}"
            raise InputError(f"{found}, expected as many, of one model")
        return Subject(path, None, whole, {layer: train}, whole, None, f"probes fitted on {train_path}", samples)
    labels = np.asarray(features.labels)
    rows = np.flatnonzero(labels >= 0)
    _, counts = np.unique(labels[rows], return_counts=True)
    if len(counts) < 2 or counts.min() < 2 or len(rows) < 10 * len(counts):
        too_few = (
            f"with {len(rows)} labelled samples of {len(counts)} classes, the smallest of {counts.min()}, where a probe"
            " needs 2 classes or more with 10 samples each, and no class of one"
        )
        return Subject(path, None, whole, {}, {}, None, too_few, samples)
    fit, kept = _parts(labels, rows)
    told = f"probes fitted on {1 - _TEST_SHARE:.0%} of the labelled rows, told on the others, split with seed 0"
    parts = (rows_of(features, part) for part in (fit, kept))
    return Subject(path, None, whole, {layer: next(parts)}, {layer: next(parts)}, None, told, samples)


def _parts(labels: Any, rows: Any) -> tuple[Any, Any]:
    """These rows in two parts, classes alike, in order."""
    fit, kept = train_test_split(rows, test_size=_TEST_SHARE, stratify=labels[rows], random_state=0)
    return np.sort(fit), np.sort(kept)


def _digest(features: Features) -> str:
    ids = features.samples["id"].to_pylist() if "id" in features.samples.column_names else range(len(features))
    labels = features.labels if features.labels is not None else np.zeros(0)
    return hashlib.sha256("\0".join(map(str, ids)).encode() + b"\1" + np.asarray(labels).tobytes()).hexdigest()


def open_features(path: str, labels: str | None = None) -> Features:
    """Features in a folder, beside a run's folder, or as a file of vectors with labels."""
    if is_file_of_vectors(path):
        vectors = open_vectors(path)
        if labels is None:
            return Features(as_float32(vectors))
        numbers, names = label_numbers(read_column(labels, len(vectors), path), labels)
        return Features(as_float32(vectors), labels=numbers, label_names=names)
    if labels is not None:
        raise InputError(f"labels is given for {path}, expected them for a file of vectors alone")
    return Features.load(find_features(split_name(path)[0]))


def _of_run(path: str, data: str | None, device: str | None) -> Subject:
    config = load_recipe(str(Path(path) / "config.toml"))
    model = load(path)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    model.to(place)
    sources = split_sources(model, data or config.data, config.skip_broken)
    train, test = (model.embed(source, "both", media=False) for source in sources)
    known = [0 if source.labels is None else int((source.labels >= 0).sum()) for source in sources]
    told = f"probes fitted on {sources[0].name}, {known[0]:,} labelled samples, told on {sources[1].name}"
    if sources[0].name == sources[1].name:
        seen = ", which the run has seen whole" if data in (None, config.data) else ""
        told = f"probes fitted on 80% of {sources[0].name}{seen}, told on the rest"
    if not all(known):
        told, train = "without labels", {}
    trained = Trained(model, config, *sources)
    return Subject(path, config.seed, test, train, test, trained, told, _digest(test["encoder"]))


def split_sources(model: Model, data: str, skip_broken: bool = False) -> tuple[Source, Source]:
    """The train and test split of data; of data without splits 80% and the rest of its labelled samples."""
    train = source_for(model, data, "train", skip_broken)
    try:
        return train, source_for(model, data, "test", skip_broken)
    except UndividedError:
        labels = np.full(len(train), -1) if train.labels is None else train.labels
        rows = np.flatnonzero(labels >= 0)
        if not len(rows):
            rows, labels = np.arange(len(train)), np.zeros(len(train), np.int64)
        fit, kept = _parts(labels, rows)
        return train.take(fit), train.take(kept)


def test_source(model: Model, data: str, skip_broken: bool = False) -> Source:
    """The test split of data, or all of data without splits."""
    try:
        return source_for(model, data, "test", skip_broken)
    except UndividedError:
        return source_for(model, data, "train", skip_broken)


def rows_of(features: Features, rows: Any) -> Features:
    """Codes and labels of these rows."""
    labels = None if features.labels is None else features.labels[rows]
    return Features(features.codes[rows], labels=labels, label_names=features.label_names)
