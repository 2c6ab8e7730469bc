"""A classifier on disk and on the hub: its embedding, the head's weights and the classes, without pickle."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from nonneg.convert import _store
from nonneg.convert._glass_head import check_names
from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError

if TYPE_CHECKING:
    from nonneg.convert._classifier import NonNegativeClassifier

EMBEDDING = "embedding"
_CLASSIFIER = _store.Saved(
    "NonNegativeClassifier",
    "classifier",
    "classifier.json",
    "classifier.safetensors",
    further=(f"{EMBEDDING}/{_store.CONFIG}", f"{EMBEDDING}/{_store.WEIGHTS}"),
    inner="classifier",
)
_NAMED = 10  # classes listed on the card


def save(classifier: "NonNegativeClassifier", folder: Path) -> Path:
    """Write the fitted classifier; the config is written last."""
    labels = classifier.classes_
    if labels.dtype.kind not in "iubfU":
        raise InputError(f"classes_ are {labels.dtype}, expected numbers or strings")
    classes, features = classifier.coef_.shape
    embedding = _store.save(classifier.embedding_, folder / EMBEDDING)
    described = {
        "classes": labels.tolist(),
        "dtype": str(labels.dtype),
        "C": float(classifier.C),
        "max_iter": int(classifier.max_iter),
        "random_state": _store.plain(classifier.random_state),
        "n_iter": classifier.n_iter_,
        "feature_names": {str(feature): name for feature, name in (classifier.feature_names or {}).items()},
        "embedding": _digest(embedding),
    }
    listed = [" ".join(str(label).split()) for label in labels[:_NAMED]] + ["…"] * (classes > _NAMED)
    card = _CLASSIFIER.card(
        "tabular-classification",
        f"Glass-box classifier for {classes} classes",
        f"Predicts one of {', '.join(listed)} from {features} non-negative features of vectors of"
        f" {classifier.n_features_in_} numbers.\nA score is the sum of the contributions of the active features.",
        "classes = classifier.predict(vectors)\nprint(classifier.explain(vectors[0]))",
    )
    weights = {"coef": classifier.coef_, "intercept": classifier.intercept_}
    return _CLASSIFIER.write(folder, described, {name: torch.tensor(value) for name, value in weights.items()}, card)


def load(path: str | Path) -> "NonNegativeClassifier":
    """Load from a run, the folder of a classifier, or `hub:owner/name`."""
    from nonneg.convert._classifier import NonNegativeClassifier

    folder = _CLASSIFIER.folder(path)
    embedding = _store.load(folder / EMBEDDING)
    with _CLASSIFIER.opened(folder) as (described, tensors):
        classes = np.array(described["classes"], described["dtype"])
        if classes.ndim != 1 or classes.dtype.kind not in "iubfU" or len(np.unique(classes)) < len(classes):
            raise ValueError(
                f"its classes are {described['classes']!r:.80}, expected numbers or strings, all different"
            )
        if described.get("embedding") not in (None, _digest(folder / EMBEDDING)):
            raise ValueError("its embedding is not the one it was saved with (SHA-256 differs)")
        features = embedding.head_.weight.shape[0]
        _store.check_tensors(tensors, {"coef": (len(classes), features), "intercept": (len(classes),)})
        if bool((tensors["coef"] < 0).any()):
            raise ValueError("coef has negative entries")
        names = {int(feature): name for feature, name in described["feature_names"].items()}
        check_names(names, features)
        classifier = NonNegativeClassifier(
            embedding,
            float(described["C"]),
            feature_names=names or None,
            max_iter=int(described["max_iter"]),
            random_state=described.get("random_state"),
        )
        classifier.n_iter_ = int(described["n_iter"])
    classifier.embedding_, classifier.classes_ = embedding, classes
    classifier.coef_, classifier.intercept_ = tensors["coef"].double().numpy(), tensors["intercept"].double().numpy()
    classifier.n_features_in_ = embedding.n_features_in_
    return classifier


def _digest(embedding: Path) -> str:
    """A digest of an embedding's weights; with another embedding, the head would be silently wrong."""
    with read_errors_as_input_errors(embedding):
        return hashlib.sha256((embedding / _store.WEIGHTS).read_bytes()).hexdigest()
