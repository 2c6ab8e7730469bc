"""Open features, runs and files of vectors for the explorer."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nonneg.errors import InputError
from nonneg.explorer._explorer import Explorer
from nonneg.explorer._feature_set import FeatureSet
from nonneg.explorer._glass import GlassBox
from nonneg.features import Features, find_features
from nonneg.runs import kind_of
from nonneg.search import encoder_for, named_run


def open_explorer(given: Sequence[str | Path | Features], sentence_model: str | None = None) -> Explorer:
    """Return an explorer of one or two features, features folders, runs or files of vectors.

    A run brings its model, which encodes new samples, and its glass-box classifier, if it has one. Features bring the
    model of the run that they name, if it is beside them. A run of `nonneg convert` encodes new texts if
    `sentence_model` names the model that made its vectors.
    """
    sets = [_open(each, name, sentence_model) for each, name in zip(given, _names(given), strict=True)]
    if sentence_model is not None and not any(each.input_kind == "text" for each in sets):
        raise InputError(f"sentence_model is {sentence_model!r}, expected a run of nonneg convert with it")
    return Explorer(sets)


def _open(given: str | Path | Features, name: str, sentence_model: str | None) -> FeatureSet:
    if isinstance(given, Features):
        return FeatureSet(given, name)
    if kind_of(given) == "vectors":
        return FeatureSet(_open_vectors(str(given)), name)
    path = Path(given)
    folder = find_features(path)
    features = Features.load(folder)
    encoder = None
    if path != folder and (path / "model" / "config.json").is_file():
        encoder = encoder_for(features, path, sentence_model)
    elif path == folder:
        with suppress(InputError):  # no run beside them, or one that does not fit: they are shown all the same
            encoder = encoder_for(features, named_run(folder, features), sentence_model)
    has_classifier = (path / "classifier" / "classifier.json").is_file()
    glass_box = GlassBox(path / "classifier", features) if has_classifier else None
    return FeatureSet(features, name, folder, encoder, glass_box)


def _open_vectors(path: str) -> Features:
    from nonneg.evaluate import open_features  # imports torch

    try:
        return open_features(path)
    except InputError as error:
        if path in str(error):
            raise
        raise InputError(f"{path}: {error}") from error


def _names(given: Sequence[str | Path | Features]) -> list[str]:
    """The names of the sets: the last part of each path, or more of it if those are equal."""
    paths = [None if isinstance(each, Features) else Path(each).absolute() for each in given]  # "." has no name
    names = ["features" if path is None else path.name.removesuffix(".features") for path in paths]
    if len(set(names)) < len(names):
        names = [
            f"{name} {place}" if path is None else f"{path.parent.name}/{name}"
            for place, (name, path) in enumerate(zip(names, paths, strict=True), 1)
        ]
    return names if len(set(names)) == len(names) else [f"{name} ({place})" for place, name in enumerate(names, 1)]
