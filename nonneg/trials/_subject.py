"""Opening what can be measured: a trained run with its data, a features folder, a file of vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.evaluate import Subject, open_features, sample_digest, split_features, split_rows
from nonneg.features import Features
from nonneg.labels import is_labelled
from nonneg.modalities import Source, UndividedError
from nonneg.models import Model, load
from nonneg.runs import kind_of
from nonneg.training import load_recipe


@dataclass(frozen=True, kw_only=True)
class TrainedSubject(Subject):
    """A trained run to measure: its features, and the model and data to make others."""

    model: Model
    train_source: Source
    test_source: Source


def is_run(path: str) -> bool:
    """Whether a path is the folder of a trained run."""
    return kind_of(path) == "trained run"


def open_subject(
    path: str,
    train: str | None = None,
    labels: str | None = None,
    data: str | None = None,
    device: str | None = None,
    *,
    train_labels: str | None = None,
) -> Subject:
    """Open a trained run, a features folder, a run of `nonneg convert` or a file of vectors.

    Args:
        path: what to open.
        train: features to fit probes on; if None, 80% of the labelled rows of `path` are for fitting.
        labels: a file with one label per row, for a file of vectors.
        data: samples to measure a run on instead of those it was trained on.
        device: where to embed a run's samples; None is a CUDA device if there is one.
        train_labels: a file with one label per row of `train`, if that is a file of vectors.
    """
    if is_run(path):
        for name, given in (("train", train), ("labels", labels), ("train_labels", train_labels)):
            if given is not None:
                raise InputError(f"{name} is {given}, expected none for the run {path}, which has its own")
        return open_run(path, data, device)
    features = open_features(path, labels)
    if data is not None:
        raise InputError(f"data is {data}, expected none for {path}, which is not a trained run")
    if train is None and train_labels is not None:
        raise InputError(f"train_labels is {train_labels} but train is not given, expected both or neither")
    fitted_on = None if train is None else open_features(train, train_labels)
    return split_features(features, path, fitted_on, train or "")


def open_run(path: str, data: str | None = None, device: str | None = None) -> TrainedSubject:
    """Embed a trained run's train and test samples, both layers.

    Args:
        path: the run's folder.
        data: samples to use instead of those the run was trained on.
        device: where to embed; None is a CUDA device if there is one.
    """
    config = load_recipe(str(Path(path) / "config.toml"))
    model = load(path).to(choose_device(device))
    sources: tuple[Source, Source] = open_training_data(
        path, data, config.data, lambda name: split_sources(model, name)
    )
    train, test = (embed_layers(model, source) for source in sources)
    known = [0 if source.labels is None else int(is_labelled(source.labels).sum()) for source in sources]
    is_divided = sources[0].name == sources[1].name
    is_own = data is None or Path(data).resolve() == Path(config.data).resolve()
    seen = "; the run was trained on all of them" if is_divided and is_own else ""
    missing = "" if all(known) else "no labels"
    origin = f" of {sources[1].name}{seen}"
    if missing:
        protocol, train = f"evaluated on {len(sources[1]):,} samples{origin}; {missing}", {}
    elif is_divided:
        protocol = (
            f"probes fitted on {known[0]:,} samples of {sources[0].name} and evaluated on {known[1]:,} others{seen}"
        )
    else:
        protocol = (
            f"probes fitted on {sources[0].name} ({known[0]:,} labelled samples) and evaluated on {sources[1].name}"
        )
    return TrainedSubject(
        path,
        config.seed,
        test,
        train,
        test,
        protocol,
        sample_digest(test["encoder"]),
        sources[1].factors,
        _joined_split(*sources),
        missing,
        origin,
        model=model,
        train_source=sources[0],
        test_source=sources[1],
    )


def _joined_split(train: Source, test: Source) -> Any:
    return None if train.split is None or test.split is None else np.concatenate((train.split, test.split))


def open_training_data(run: str, data: str | None, own: str, opened: Callable[[str], Any]) -> Any:
    """Return what `opened` makes of data, or of a run's own: that may have moved, or have been an array in Python."""
    try:
        return opened(data or own)
    except InputError as error:
        if data or Path(own).exists():
            raise
        raise InputError(
            f"{run} was trained on {own!r}, which cannot be opened again; give measure other data (--data), or embed"
            " samples with nonneg embed and use those features"
        ) from error


def embed_layers(model: Model, source: Source) -> dict[str, Features]:
    """Return the features of both layers by name, without previews."""
    return {str(layer): features for layer, features in model.embed(source, "both", media=False).items()}


def split_sources(model: Model, data: str) -> tuple[Source, Source]:
    """Return the train and test split of data; of data without splits, 80% and 20% of its labelled samples."""
    train = model.open(data)
    try:
        return train, model.open(data, "test")
    except UndividedError:
        labels = np.full(len(train), -1) if train.labels is None else train.labels
        rows = np.flatnonzero(is_labelled(labels))
        if len(np.unique(labels[rows])) == len(rows):  # no two samples share a label
            rows, labels = np.arange(len(train)), np.zeros(len(train), np.int64)
        fit, kept = split_rows(labels, rows)
        return train.take(fit), train.take(kept)


def test_source(model: Model, data: str) -> Source:
    """Return the test split of data, or all of data without splits."""
    try:
        return model.open(data, "test")
    except UndividedError:
        return model.open(data)
