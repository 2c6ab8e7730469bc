"""`nonneg doctor`: finds the vectors that were named, wherever they are, and has them diagnosed."""

from pathlib import Path
from typing import Any

import numpy as np

from nonneg.convert import label_numbers
from nonneg.data import open_source, open_vectors, read_column, split_name
from nonneg.errors import InputError
from nonneg.features import Features, is_features
from nonneg.models import load
from nonneg.studies._diagnosis import Diagnosis
from nonneg.studies._doctor import diagnose
from nonneg.training import load_recipe


def examine(subject: str, labels: str | None = None, **settings: Any) -> Diagnosis:
    """Diagnose a file of vectors, a features folder, a run of `nonneg convert` or a trained run.

    Args:
        subject: its path; of a file with several arrays, `file.npz:name`.
        labels: a file of labels, one a row; those of the features or the run if left out.
        **settings: as for `diagnose`.
    """
    vectors, known = _opened(subject)
    if labels is not None:
        known = label_numbers(labels, read_column(labels))[0]
        if len(known) != vectors.shape[0]:
            raise InputError(f"{labels} has {len(known)} rows, expected {vectors.shape[0]}, as many as {subject}")
    return diagnose(vectors, known, name=Path(subject).name, **settings)


def _opened(subject: str) -> tuple[Any, Any]:
    path = split_name(subject)[0]
    if not path.is_dir():
        return open_vectors(subject), None
    beside = path.with_name(f"{path.name}.features")
    if is_features(path) or (not (path / "config.toml").is_file() and is_features(beside)):
        features = Features.load(path if is_features(path) else beside)
    elif (path / "config.toml").is_file():
        model, config = load(path), load_recipe(str(path / "config.toml"))
        source = open_source(config.data, image_size=config.image_size, skip_broken=config.skip_broken)
        features = model.embed(source, media=False)
    else:
        raise InputError(f"{subject} is neither features nor a run, expected one of them or a file of vectors")
    return features.codes, None if features.labels is None else np.asarray(features.labels)
