"""A glass-box classifier on disk: its embedding, the head's weights, the classes. No pickle is read or written."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from nonneg.convert import _store
from nonneg.durable import read_plainly, write_bytes
from nonneg.errors import InputError

if TYPE_CHECKING:
    from nonneg.convert._classifier import NonNegativeClassifier

CONFIG, WEIGHTS, EMBEDDING = "classifier.json", "classifier.safetensors", "embedding"
_KIND = "NonNegativeClassifier"


def save(classifier: "NonNegativeClassifier", folder: Path) -> Path:
    """Write the fitted classifier; its config comes last."""
    labels = classifier.classes_
    if labels.dtype.kind not in "iubfU":
        raise InputError(f"classes_ are {labels.dtype}, expected numbers or strings to write down")
    _store.save(classifier.embedding_, folder / EMBEDDING)
    write_bytes(folder / WEIGHTS, save_arrays({"coef": classifier.coef_, "intercept": classifier.intercept_}))
    described = {
        "nonneg": _KIND,
        "classes": labels.tolist(),
        "dtype": str(labels.dtype),
        "C": classifier.C,
        "max_iter": classifier.max_iter,
        "n_iter": classifier.n_iter_,
        "feature_names": {str(feature): name for feature, name in (classifier.feature_names or {}).items()},
    }
    write_bytes(folder / CONFIG, json.dumps(described, indent=1).encode())
    return folder


def load(path: str | Path) -> "NonNegativeClassifier":
    """What `save` wrote."""
    from nonneg.convert._classifier import NonNegativeClassifier

    folder = Path(path)
    for part in (folder / CONFIG, folder / WEIGHTS):
        if not part.is_file():
            raise InputError(f"{path} holds no fitted classifier: {part} is missing")
    embedding = _store.load(folder / EMBEDDING)
    with read_plainly(folder):
        text, content = (folder / CONFIG).read_bytes(), (folder / WEIGHTS).read_bytes()
    try:
        config: dict[str, Any] = json.loads(text)
        if config["nonneg"] != _KIND:
            raise ValueError(f"it describes a {config['nonneg']}")
        names = {int(feature): str(name) for feature, name in config["feature_names"].items()}
        classes, arrays = np.array(config["classes"], config["dtype"]), load_arrays(content)
        features = embedding.head_.weight.shape[0]
        if arrays["coef"].shape != (len(classes), features) or arrays["intercept"].shape != (len(classes),):
            raise ValueError("its weights have other shapes than its classes and features")
        classifier = NonNegativeClassifier(
            embedding, float(config["C"]), feature_names=names or None, max_iter=int(config["max_iter"])
        )
        classifier.n_iter_ = int(config["n_iter"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{folder / CONFIG} does not describe a nonneg classifier: {reason}") from error
    classifier.embedding_, classifier.classes_ = embedding, classes
    classifier.coef_, classifier.intercept_ = arrays["coef"], arrays["intercept"]
    classifier.n_features_in_ = embedding.n_features_in_
    return classifier
