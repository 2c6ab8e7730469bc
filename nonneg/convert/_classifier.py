"""`NonNegativeClassifier`: a glass-box classifier whose scores are sums of the contributions of named features."""

import hashlib
from collections.abc import Iterable, Mapping
from copy import copy, deepcopy
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor

from nonneg.convert._config import HeadConfig, checked_config, plain
from nonneg.convert._embedding import NonNegativeEmbedding
from nonneg.convert._explanation import Contribution, Explanation, WhatIf
from nonneg.convert._glass_head import check_names, fit_head, is_feature, is_number
from nonneg.convert._head import encoded
from nonneg.convert._rows import Rows, row_keys, zero_rows
from nonneg.convert._store import CONFIG, WEIGHTS, Description, Format, Pretrained, as_json, check_tensors
from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.features import Features, is_features
from nonneg.messages import counted
from nonneg.naming import guessed_names

Array = npt.NDArray[Any]

_EMBEDDING = "embedding"  # the folder of the embedding within that of the classifier
_LISTED = 10  # classes on the card
_LABEL_KINDS, _MOST_LABEL_BYTES = "iubfU", 2**26


class NonNegativeClassifier(ClassifierMixin, Pretrained, BaseEstimator):  # type: ignore[misc]
    """A linear head with non-negative weights on non-negative features.

    A feature only adds evidence for a class, and no feature is hidden: the score of a class is its intercept plus
    the sum of activation times weight over the active features. If each feature is a latent class, and labels depend
    on samples only through the latent classes, such a head can be optimal.

    Args:
        embedding: turns vectors into codes; by default a `NonNegativeEmbedding` with 1,024 features.
        C: inverse strength of the penalty on squared weights, as in scikit-learn's logistic regression.
        feature_names: names of features, by column; not every feature needs one.
        max_iter: maximum number of steps of the head's solver.
        random_state: seed of the embedding, if it has none of its own.

    Attributes:
        classes_: the labels.
        embedding_: the fitted embedding.
        coef_: `(classes, features)`, non-negative.
        intercept_: `(classes,)`.
        n_iter_: number of steps that the solver made.
        fitted_: hashes of the rows of the fit, by which `what_if` recognises them.
        n_features_in_: width of the vectors.
        feature_names_in_: names of the vectors' columns, if fitted on a DataFrame with column names.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> small = NonNegativeEmbedding(n_components=128, max_active=16, max_iter=100)
        >>> classifier = NonNegativeClassifier(small, random_state=0).fit(X, y)
        >>> why = classifier.explain(X[0])
        >>> why.label
        np.int64(0)
        >>> bool(abs(why.score - why.intercept - sum(c.value for c in why.contributions)) < 1e-9)
        True
        >>> edited = classifier.edited(off=[3], weights={(5, 8): 2.0})  # by (feature, label)
        >>> float(edited.coef_[:, 3].max()), float(edited.coef_[8, 5])
        (0.0, 2.0)
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = NonNegativeClassifier.from_pretrained(edited.save_pretrained(folder))
        >>> bool((again.predict(X) == edited.predict(X)).all())
        True
    """

    _format = Format(
        "NonNegativeClassifier",
        "classifier",
        "classifier.json",
        "classifier.safetensors",
        further=(f"{_EMBEDDING}/{CONFIG}", f"{_EMBEDDING}/{WEIGHTS}"),
        inner="classifier",
    )
    _guesses: Mapping[int, str] = MappingProxyType({})  # suggested names that are guesses

    def __init__(
        self,
        embedding: NonNegativeEmbedding | None = None,
        C: float = 1.0,
        *,
        feature_names: Mapping[int, str] | None = None,
        max_iter: int = 200,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.embedding = embedding
        self.C = C
        self.feature_names = feature_names
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the embedding on vectors `(samples, width)`, then the head on their codes and labels `(samples,)`."""
        given = NonNegativeEmbedding() if self.embedding is None else self.embedding
        self._check(given)
        embedding = clone(given)
        if embedding.random_state is None:
            embedding.set_params(random_state=self.random_state)
        check_names(self.feature_names, checked_config(embedding.get_params(), 0).n_components)
        classes, numbers = _numbered(y)
        samples = len(embedding._validated(X, reset=True))
        if samples != len(numbers):
            raise InputError(f"X has {samples} samples and y {len(numbers)} labels, expected the same number")
        return self._fit_on(embedding.fit(X, numbers), X, classes, numbers)

    @classmethod
    def on(cls, embedding: NonNegativeEmbedding, X: Any, y: Any, C: float = 1.0) -> Self:
        """Fit only the head, on the codes of an embedding that is already fitted.

        Args:
            embedding: a fitted embedding.
            X: vectors `(samples, width)`.
            y: one label per sample.
            C: as for the class.
        """
        self = cls(embedding, C)
        self._check(embedding)
        check_is_fitted(embedding)
        classes, numbers = _numbered(y)
        return self._fit_on(embedding, X, classes, numbers)

    def _check(self, embedding: Any) -> None:
        if not isinstance(embedding, NonNegativeEmbedding):
            kind = f"the class {embedding.__name__}" if isinstance(embedding, type) else f"a {type(embedding).__name__}"
            raise InputError(f"embedding is {kind}, expected a NonNegativeEmbedding or None")
        HeadConfig(plain(self.C), plain(self.max_iter))  # checks them

    def _fit_on(self, embedding: NonNegativeEmbedding, X: Any, classes: Array, numbers: Array) -> Self:
        """Fit the head on the codes of a fitted embedding."""
        codes = _codes(embedding, X)
        if codes.shape[0] != len(numbers):
            raise InputError(f"X has {codes.shape[0]} samples and y {len(numbers)} labels, expected the same number")
        self.coef_, self.intercept_, self.n_iter_ = fit_head(codes, numbers, len(classes), self.C, self.max_iter)
        self.embedding_, self.n_features_in_, self.classes_ = embedding, embedding.n_features_in_, classes
        self.fitted_ = np.unique(row_keys(embedding._validated(X, reset=False)))
        return self

    @property
    def feature_names_in_(self) -> Array:
        """Column names of the fit; as in scikit-learn, the attribute does not exist if there were none."""
        return np.asarray(self.embedding_.feature_names_in_)

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        scores: Array = _codes(self.embedding_, X) @ self.coef_.T + self.intercept_
        return scores

    def decision_function(self, X: Any) -> Array:
        """Scores `(samples, classes)`; for two classes, the second score minus the first, `(samples,)`."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Probabilities `(samples, classes)`."""
        return np.asarray(softmax(self._scores(X), axis=1))

    def predict(self, X: Any) -> Array:
        """The class with the highest score, `(samples,)`."""
        best = self._scores(X).argmax(1)
        return np.asarray(self.classes_[best])

    # Explaining and editing

    def explain(self, x: Any, label: Any = None) -> Explanation:
        """Explain the score of a class for one vector.

        Args:
            x: `(width,)` or `(1, width)`: an array, a tensor, a row of a DataFrame.
            label: the class to explain; the predicted one by default.
        """
        check_is_fitted(self)
        x = _one_row(x, self.n_features_in_, hasattr(self, "feature_names_in_"))
        row = _codes(self.embedding_, x)
        if len(zero_rows(self.embedding_._validated(x, reset=False))):
            raise InputError("x contains only zeros, expected a vector with a direction")
        scores = row @ self.coef_.T + self.intercept_
        chosen = int(scores.argmax()) if label is None else self._class(label)
        weights = self.coef_[chosen]
        contributions = sorted(
            (
                Contribution(int(i), self.name(int(i)), float(value), float(weights[i]), self._is_guess(int(i)))
                for i, value in zip(row.indices, row.data, strict=True)
            ),
            key=lambda c: -c.value,
        )
        return Explanation(
            self.classes_[chosen], float(scores[0, chosen]), float(self.intercept_[chosen]), tuple(contributions)
        )

    @classmethod
    def from_pretrained(cls, path: str | Path) -> Self:
        """Load a fitted classifier from a run of `nonneg convert`, a folder, or the hub: `hub:owner/name`.

        Names of features are those in the features next to a run, which people may have changed since it was fitted.
        """
        classifier = super().from_pretrained(path)
        folder = Path(path) if str(path).startswith("hub:") else Path(path).resolve()
        run = folder.parent if folder.name == cls._format.inner else folder
        beside = run.with_name(f"{run.name}.features")
        if is_features(beside):
            features = Features.load(beside)
            if classifier._has_codes(features):
                return classifier.with_names_of(features)
        return classifier

    def with_names_of(self, features: Features) -> Self:
        """A copy that names its features as these codes of its embedding do: by people's names, or suggested ones."""
        check_is_fitted(self)
        if not self._has_codes(features):
            expected = f"expected all {self.coef_.shape[1]} of the codes"
            raise InputError(f"features has {features.shape[1]} columns, {expected}")
        named = copy(self)
        named.feature_names = {**(self.feature_names or {}), **features.titles} or None
        named._guesses = guessed_names(features)
        return named

    def _has_codes(self, features: Features) -> bool:
        """Whether these are all columns of the embedding's codes, in their order."""
        return features.shape[1] == self.coef_.shape[1] and features.model_columns is None

    def name(self, feature: int) -> str:
        """The name of a feature."""
        return (self.feature_names or {}).get(feature, f"feature {feature}")

    def _is_guess(self, feature: int) -> bool:
        return self._guesses.get(feature) == self.name(feature)

    def edited(self, off: Iterable[int] = (), weights: Mapping[tuple[int, Any], float] | None = None) -> Self:
        """A copy with features switched off, or with other weights.

        Args:
            off: features whose weights are set to 0 for all classes.
            weights: non-negative weights by (feature, label): `{(5, "cat"): 2.0}`.
        """
        check_is_fitted(self)
        if not isinstance(off, Iterable):
            raise InputError(f"off is {off!r}, expected a list of features, such as [3]")
        if not isinstance(weights, Mapping | None):
            raise InputError(f"weights is a {type(weights).__name__}, expected numbers by (feature, label)")
        other = deepcopy(self)
        for feature in off:
            other.coef_[:, self._feature(feature)] = 0
        for key, weight in (weights or {}).items():
            if not isinstance(key, tuple) or len(key) != 2:
                raise InputError(f"weights has the key {key!r}, expected (feature, label)")
            feature, label = key
            if not is_number(weight) or not weight >= 0:
                raise InputError(
                    f"the weight of feature {feature} for {label!r} is {weight!r}, expected a number, at least 0"
                )
            other.coef_[self._class(label), self._feature(feature)] = weight
        return other

    def what_if(
        self, X: Any, y: Any, off: Iterable[int] = (), weights: Mapping[tuple[int, Any], float] | None = None
    ) -> WhatIf:
        """Accuracy on these samples before and after `edited(off, weights)`, and how many of them were fitted.

        Args:
            X: vectors `(samples, width)`.
            y: their labels, `(samples,)`.
            off: as in `edited`.
            weights: as in `edited`.
        """
        before, after = self.predict(X), self.edited(off, weights).predict(X)
        changed, known = int((before != after).sum()), getattr(self, "fitted_", np.zeros(0, np.int64))
        seen = int(np.isin(row_keys(self.embedding_._validated(X, reset=False)), known).sum())
        return WhatIf(float(accuracy_score(y, before)), float(accuracy_score(y, after)), changed, len(before), seen)

    # On disk and on the hub

    def save_pretrained(self, folder: str | Path, measured: Mapping[str, float] | None = None) -> Path:
        """Write the embedding, the head's weights, the classes and a model card to a folder, for `from_pretrained`."""
        check_is_fitted(self)
        check_names(self.feature_names, self.coef_.shape[1])
        if self.classes_.dtype.kind not in _LABEL_KINDS or self.classes_.nbytes > _MOST_LABEL_BYTES:
            found = f"{self.classes_.dtype} with {self.classes_.nbytes:,} bytes"
            raise InputError(f"classes_ are {found}, expected numbers or strings with at most {_MOST_LABEL_BYTES:,}")
        self.embedding_.save_pretrained(Path(folder) / _EMBEDDING)
        return super().save_pretrained(folder, measured)

    def _described(self, folder: Path) -> Description:
        classes, features = self.coef_.shape
        config = {
            "classes": self.classes_.tolist(),
            "dtype": str(self.classes_.dtype),
            "C": float(self.C),
            "max_iter": int(self.max_iter),
            "random_state": as_json(self.random_state),
            "n_iter": self.n_iter_,
            "feature_names": {str(feature): name for feature, name in (self.feature_names or {}).items()},
            "guesses": {str(feature): name for feature, name in self._guesses.items()},
            "embedding": _digest(folder),
        }
        listed = [" ".join(str(label).split()) for label in self.classes_[:_LISTED]] + ["…"] * (classes > _LISTED)
        card = {
            "task": "tabular-classification",
            "title": f"Glass-box classifier for {classes} classes",
            "text": f"Predicts one of {', '.join(listed)} from {features} non-negative features of vectors of"
            f" {self.n_features_in_} numbers.\nA score is the sum of the contributions of the active features.",
            "use": "classes = classifier.predict(vectors)\nprint(classifier.explain(vectors[0]))",
        }
        tensors = {"coef": torch.tensor(self.coef_), "intercept": torch.tensor(self.intercept_)}
        tensors["fitted"] = torch.tensor(getattr(self, "fitted_", np.zeros(0, np.int64)))
        return Description(config, tensors, card, {"": self.embedding_.report_})

    @classmethod
    def _restored(cls, config: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> Self:
        embedding = NonNegativeEmbedding.from_pretrained(folder / _EMBEDDING)
        if config.get("embedding") not in (None, _digest(folder)):
            raise ValueError("its embedding is not the one it was saved with (SHA-256 differs)")
        classes = _restored_labels(config["classes"], np.dtype(config["dtype"]))
        features = embedding.head_.weight.shape[0]
        fitted = tensors.pop("fitted", torch.zeros(0, dtype=torch.int64))  # older classifiers have none
        check_tensors(tensors, {"coef": (len(classes), features), "intercept": (len(classes),)})
        if fitted.ndim != 1 or fitted.dtype != torch.int64:
            raise ValueError("fitted is not a list of numbers")
        if bool((tensors["coef"] < 0).any()):
            raise ValueError("coef has negative entries")
        names = {int(feature): name for feature, name in config["feature_names"].items()}
        check_names(names, features)
        classifier = cls(
            embedding,
            float(config["C"]),
            feature_names=names or None,
            max_iter=int(config["max_iter"]),
            random_state=config.get("random_state"),
        )
        classifier.n_iter_ = int(config["n_iter"])
        classifier.embedding_, classifier.classes_ = embedding, classes
        classifier.coef_ = tensors["coef"].double().numpy()
        classifier.intercept_ = tensors["intercept"].double().numpy()
        classifier.n_features_in_ = embedding.n_features_in_
        classifier.fitted_ = fitted.numpy()
        classifier._guesses = {int(feature): str(name) for feature, name in config.get("guesses", {}).items()}
        return classifier

    def _class(self, label: Any) -> int:
        found = np.flatnonzero(self.classes_ == label)
        if len(found) == 0:
            raise InputError(f"label is {label!r}, expected one of {', '.join(map(str, self.classes_))}")
        return int(found[0])

    def _feature(self, feature: Any) -> int:
        if not is_feature(feature, self.coef_.shape[1]):
            raise InputError(f"feature {feature!r} does not exist, expected 0 to {self.coef_.shape[1] - 1}")
        return int(feature)


def _numbered(y: Any) -> tuple[Array, Array]:
    """The classes, and the class number of each label. Negative labels are classes, as in scikit-learn."""
    if y is None:
        raise InputError("NonNegativeClassifier requires y to be passed, but the target y is None")
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    classes = unique_labels(y)
    if len(classes) < 2:
        raise InputError(f"y has {counted(len(classes), 'class', 'classes')}, expected two or more")
    return classes, np.searchsorted(classes, y)


def _codes(embedding: NonNegativeEmbedding, X: Any) -> sp.csr_array:
    """Codes in float64, so that a score does not depend on the other rows in the batch."""
    X = embedding._validated(X, reset=False)
    return encoded(embedding.head_, Rows(X, device=torch.device("cpu"), dtype=torch.float64))


def _one_row(x: Any, width: int, named: bool) -> Any:
    """A vector as `(1, width)`; a row of a DataFrame keeps its column names if the fit had some."""
    if named and hasattr(x, "iloc"):
        x = x.to_frame().T if x.ndim == 1 else x
    elif not isinstance(x, Tensor):
        x = np.asarray(x)
    x = x.reshape(1, -1) if x.ndim == 1 else x
    if x.ndim != 2 or x.shape[0] != 1:
        raise InputError(f"x has shape {tuple(x.shape)}, expected one row, ({width},) or (1, {width})")
    return x


def _digest(folder: Path) -> str:
    """A digest of the weights of a classifier's embedding; with another embedding, the head would be silently wrong."""
    path = folder / _EMBEDDING / WEIGHTS
    with read_errors_as_input_errors(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()


def _restored_labels(labels: Any, dtype: np.dtype[Any]) -> Array:
    """The classes from a config; its dtype is not trusted, as it may demand any amount of memory."""
    is_small = dtype.kind in _LABEL_KINDS and len(labels) * dtype.itemsize <= _MOST_LABEL_BYTES
    classes = np.array(labels, dtype) if is_small else np.empty(0)
    if not is_small or classes.ndim != 1 or len(np.unique(classes)) < len(classes):
        found = f"its classes are {labels!r:.80} with dtype {dtype}"
        raise ValueError(f"{found}, expected different numbers or strings with at most {_MOST_LABEL_BYTES:,} bytes")
    return classes
