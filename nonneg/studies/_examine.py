"""`nonneg doctor`: open a file, a features folder or a run, and diagnose its features."""

from pathlib import Path
from typing import Any

import numpy as np

from nonneg.evaluate import open_features
from nonneg.labels import label_numbers
from nonneg.models import load
from nonneg.studies._diagnosis import Diagnosis
from nonneg.studies._doctor import diagnose
from nonneg.tables import open_vectors, read_column, split_name
from nonneg.training import load_recipe
from nonneg.trials import test_source


def examine(subject: str, labels: str | None = None, **settings: Any) -> Diagnosis:
    """Diagnose a file of vectors, a features folder, a run of `nonneg convert` or a trained run.

    For a trained run, the features of its test images are diagnosed, or of all images if its data has no splits.

    Args:
        subject: its path; `file.npz:name` for a file with several arrays.
        labels: a file with one label per row; by default the labels of the features or the run.
        **settings: as for `diagnose`.
    """
    vectors, known = _open(subject)
    if labels is not None:
        known = label_numbers(read_column(labels, vectors.shape[0], subject), labels)[0]
    return diagnose(vectors, known, name=Path(subject).name, **settings)


def _open(subject: str) -> tuple[Any, Any]:
    """Return vectors and their labels or None."""
    path = split_name(subject)[0]
    if not path.is_dir():
        return open_vectors(subject), None
    if (path / "config.toml").is_file():
        model, config = load(path), load_recipe(str(path / "config.toml"))
        features = model.embed(test_source(model, config.data), media=False)
    else:
        features = open_features(subject)
    return features.codes, None if features.labels is None else np.asarray(features.labels)
