"""From a path to what is shown of it."""

from collections.abc import Sequence
from pathlib import Path

from nonneg.errors import InputError
from nonneg.explorer._encode import ImageEncoder, TextEncoder
from nonneg.explorer._explorer import Explorer
from nonneg.explorer._feature_set import FeatureSet
from nonneg.explorer._glass import GlassBox
from nonneg.features import Features, find_features
from nonneg.tables import split_name


def open_explorer(given: Sequence[str | Path | Features], sentence_model: str | None = None) -> Explorer:
    """An explorer of one or two features, features folders, runs, or files of vectors.

    Of a run its model comes along, to encode new images, and its glass-box classifier, if it has one; of a run of
    `nonneg convert` the sentence model that made its vectors has to be named, to encode texts.
    """
    if not 1 <= len(given) <= 2:
        raise InputError(f"{len(given)} sets of features are given, expected one or two")
    names = _names(given)
    sets: list[FeatureSet] = []
    encoders: list[ImageEncoder | TextEncoder | None] = []
    glass_boxes: list[GlassBox | None] = []
    for each, name in zip(given, names, strict=True):
        if isinstance(each, Features):
            sets.append(FeatureSet(each, name))
            encoders.append(None)
            continue
        path = Path(each)
        if split_name(str(each))[0].is_file():
            sets.append(FeatureSet(_of_file(str(each)), name))
            encoders.append(None)
        else:
            folder = find_features(path)
            features = Features.load(folder)
            sets.append(FeatureSet(features, name, folder))
            encoders.append(_encoder(path, features.shape[1], sentence_model) if path != folder else None)
    for each, shown in zip(given, sets, strict=True):
        head = None if isinstance(each, Features) else Path(each) / "classifier"
        is_there = head is not None and (head / "classifier.json").is_file()
        glass_boxes.append(GlassBox(head, len(shown.active)) if head is not None and is_there else None)
    if sentence_model is not None and not any(isinstance(each, TextEncoder) for each in encoders):
        raise InputError(f"sentence_model is {sentence_model!r}, expected a run of nonneg convert with it")
    return Explorer(sets, encoders, glass_boxes)


def _of_file(path: str) -> Features:
    """Of a file of vectors, which a refusal names."""
    from nonneg.evaluate import open_features  # brings torch with it

    try:
        return open_features(path)
    except InputError as error:
        if path in str(error):
            raise
        raise InputError(f"{path}: {error}") from error


def _encoder(run: Path, features: int, sentence_model: str | None) -> ImageEncoder | TextEncoder | None:
    if not (run / "model" / "config.json").is_file():
        return None
    if (run / "config.toml").is_file():  # a trained run; one of nonneg convert has a config.json
        return ImageEncoder(run, features)
    return None if sentence_model is None else TextEncoder(run, features, sentence_model)


def _names(given: Sequence[str | Path | Features]) -> list[str]:
    """What sets are called: the last part of their path, or more of it where those are the same."""
    names = ["features" if isinstance(each, Features) else Path(each).name.removesuffix(".features") for each in given]
    if len(set(names)) < len(names):
        names = [
            f"{name} {place}" if isinstance(each, Features) else f"{Path(each).parent.name}/{name}"
            for place, (name, each) in enumerate(zip(names, given, strict=True), 1)
        ]
    return names if len(set(names)) == len(names) else [f"{name} ({place})" for place, name in enumerate(names, 1)]
