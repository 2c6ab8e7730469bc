"""`nonneg doctor`: finds the vectors that were named, wherever they are, and has them diagnosed."""

from pathlib import Path
from typing import Any

import numpy as np

from nonneg.evaluate import open_features, test_source
from nonneg.labels import label_numbers
from nonneg.models import load
from nonneg.studies._diagnosis import Diagnosis
from nonneg.studies._doctor import diagnose
from nonneg.tables import open_vectors, read_column, split_name
from nonneg.training import load_recipe


def examine(subject: str, labels: str | None = None, **settings: Any) -> Diagnosis:
    """Diagnose a file of vectors, a features folder, a run of `nonneg convert` or a trained run.

    Of a trained run the features of its test images are judged, or of all images of data without splits.

    Args:
        subject: its path; of a file with several arrays, `file.npz:name`.
        labels: a file of labels, one a row; those of the features or the run if left out.
        **settings: as for `diagnose`.
    """
    vectors, known = _opened(subject)
    if labels is not None:
        known = label_numbers(read_column(labels, vectors.shape[0], subject), labels)[0]
    return diagnose(vectors, known, name=Path(subject).name, **settings)


def _opened(subject: str) -> tuple[Any, Any]:
    path = split_name(subject)[0]
    if not path.is_dir():
        return open_vectors(subject), None
    if (path / "config.toml").is_file():
        model, config = load(path), load_recipe(str(path / "config.toml"))
        features = model.embed(test_source(model, config.data, config.skip_broken), media=False)
    else:
        features = open_features(subject)
    return features.codes, None if features.labels is None else np.asarray(features.labels)
