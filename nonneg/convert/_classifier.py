"""`NonNegativeClassifier`: a glass box, whose predictions are sums of named contributions."""

import tempfile
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
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

from nonneg.convert import _classifier_store
from nonneg.convert._config import checked_config
from nonneg.convert._embedding import NonNegativeEmbedding
from nonneg.convert._explanation import Contribution, Explanation, WhatIf
from nonneg.convert._glass_head import check_names, fit_head, is_feature, is_number
from nonneg.convert._head import encoded
from nonneg.convert._rows import Rows
from nonneg.convert._store import push
from nonneg.errors import InputError

Array = npt.NDArray[Any]


class NonNegativeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Non-negative features and a linear head with non-negative weights on them.

    A feature can only speak for a class, never against one, and none is hidden: the score of a class is its
    intercept plus activation times weight of the features that are active. If each feature is a latent class
    and labels depend on the sample through it alone, such a head can be the best there is.

    Args:
        embedding: what turns vectors into codes; a `NonNegativeEmbedding` with 1,024 features if left out.
        C: inverse strength of the penalty on squared weights, as in scikit-learn's logistic regression.
        feature_names: what features are called, by column, where they have a name.
        max_iter: steps of the head's solver.
        random_state: of the embedding, where it has none of its own.

    Attributes:
        classes_: the labels.
        embedding_: the fitted embedding.
        coef_: `(classes, features)`, none below 0.
        intercept_: `(classes,)`.
        n_iter_: steps that the solver made.
        n_features_in_: width of the vectors.
        feature_names_in_: names of their columns, if it was fitted on a DataFrame whose columns are named.

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
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = NonNegativeClassifier.from_pretrained(edited.save_pretrained(folder))
        >>> bool((again.predict(X) == edited.predict(X)).all())
        True
    """

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
        """Fit the embedding, then the head on its codes: vectors `(samples, width)` and a label for each."""
        given = NonNegativeEmbedding() if self.embedding is None else self.embedding
        self._check(given)
        embedding = clone(given)
        if embedding.random_state is None:
            embedding.set_params(random_state=self.random_state)
        check_names(self.feature_names, checked_config(embedding.get_params(), 0).n_components)
        classes, numbers = _numbered(y)
        samples = len(embedding._validated(X, reset=True))
        if samples != len(numbers):
            raise InputError(f"X has {samples} samples and y {len(numbers)} labels, expected as many")
        return self._fit_on(embedding.fit(X, numbers), X, classes, numbers)

    @classmethod
    def on(cls, embedding: NonNegativeEmbedding, X: Any, y: Any, C: float = 1.0) -> Self:
        """A classifier on an embedding that is fitted already: the head alone is fitted, the codes stay as they are.

        Args:
            embedding: fitted.
            X: vectors `(samples, width)`.
            y: a label for each.
            C: as for the class.
        """
        self = cls(embedding, C)
        self._check(embedding)
        check_is_fitted(embedding)
        classes, numbers = _numbered(y)
        if len(classes) < 2:
            raise InputError(f"y has {len(classes)} classes, expected two or more")
        return self._fit_on(embedding, X, classes, numbers)

    def _check(self, embedding: Any) -> None:
        if not isinstance(embedding, NonNegativeEmbedding):
            kind = f"the class {embedding.__name__}" if isinstance(embedding, type) else f"a {type(embedding).__name__}"
            raise InputError(f"embedding is {kind}, expected a NonNegativeEmbedding or None")
        if not is_number(self.C) or not self.C > 0:
            raise InputError(f"C is {self.C!r}, expected a number above 0")
        if not is_number(self.max_iter) or self.max_iter != int(self.max_iter) or self.max_iter < 1:
            raise InputError(f"max_iter is {self.max_iter!r}, expected a whole number, at least 1")

    def _fit_on(self, embedding: NonNegativeEmbedding, X: Any, classes: Array, numbers: Array) -> Self:
        """The head, on the codes of a fitted embedding."""
        codes = _codes(embedding, X)
        if codes.shape[0] != len(numbers):
            raise InputError(f"X has {codes.shape[0]} samples and y {len(numbers)} labels, expected as many")
        self.coef_, self.intercept_, self.n_iter_ = fit_head(codes, numbers, len(classes), self.C, self.max_iter)
        self.embedding_, self.n_features_in_, self.classes_ = embedding, embedding.n_features_in_, classes
        return self

    @property
    def feature_names_in_(self) -> Array:
        """Names of the columns that it was fitted on; as in scikit-learn, there is no such attribute without names."""
        return np.asarray(self.embedding_.feature_names_in_)

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        scores: Array = _codes(self.embedding_, X) @ self.coef_.T + self.intercept_
        return scores

    def decision_function(self, X: Any) -> Array:
        """Scores `(samples, classes)`; of two classes, the second's less the first's, `(samples,)`."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Probabilities `(samples, classes)`."""
        return np.asarray(softmax(self._scores(X), axis=1))

    def predict(self, X: Any) -> Array:
        """The class of the highest score, `(samples,)`."""
        best = self._scores(X).argmax(1)
        return np.asarray(self.classes_[best])

    # Reading and changing it

    def explain(self, x: Any, label: Any = None) -> Explanation:
        """What the score of a class is made of, for one vector.

        Args:
            x: `(width,)` or `(1, width)`: an array, a tensor, a row of a DataFrame.
            label: the class to explain; the predicted one if left out.
        """
        check_is_fitted(self)
        row = _codes(self.embedding_, _one_row(x, self.n_features_in_, hasattr(self, "feature_names_in_")))
        scores = row @ self.coef_.T + self.intercept_
        chosen = int(scores.argmax()) if label is None else self._class(label)
        weights = self.coef_[chosen]
        contributions = sorted(
            (
                Contribution(int(i), self.name(int(i)), float(value), float(weights[i]))
                for i, value in zip(row.indices, row.data, strict=True)
            ),
            key=lambda c: -c.value,
        )
        return Explanation(
            self.classes_[chosen], float(scores[0, chosen]), float(self.intercept_[chosen]), tuple(contributions)
        )

    def name(self, feature: int) -> str:
        """What a feature is called."""
        return (self.feature_names or {}).get(feature, f"feature {feature}")

    def edited(self, off: Iterable[int] = (), weights: Mapping[tuple[int, Any], float] | None = None) -> Self:
        """A copy with features switched off, or with other weights.

        Args:
            off: features that no longer speak for any class.
            weights: by (feature, label), a number, at least 0: `{(5, "cat"): 2.0}`.
        """
        check_is_fitted(self)
        if not isinstance(off, Iterable):
            raise InputError(f"off is {off!r}, expected several features, such as [3]")
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
        """Accuracy on these samples as it is, and as it would be after `edited(off, weights)`.

        Args:
            X: vectors `(samples, width)`.
            y: what they are, `(samples,)`.
            off: as in `edited`.
            weights: as in `edited`.
        """
        before, after = self.predict(X), self.edited(off, weights).predict(X)
        return WhatIf(float(accuracy_score(y, before)), float(accuracy_score(y, after)), int((before != after).sum()))

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write the embedding, the head's weights, the classes and a model card to a folder, for `from_pretrained`."""
        check_is_fitted(self)
        check_names(self.feature_names, self.coef_.shape[1])
        return _classifier_store.save(self, Path(folder))

    @classmethod
    def from_pretrained(cls, path: str | Path) -> "NonNegativeClassifier":
        """A fitted classifier from a run of `nonneg convert --classify`, a folder, or the hub: `hub:owner/name`."""
        return _classifier_store.load(path)

    def push_to_hub(self, repository: str, private: bool = False) -> str:
        """Upload to the Hugging Face Hub, as `owner/name`; the address of what was uploaded."""
        with tempfile.TemporaryDirectory() as folder:
            return push(self.save_pretrained(folder), repository, private)

    def _class(self, label: Any) -> int:
        found = np.flatnonzero(self.classes_ == label)
        if len(found) == 0:
            raise InputError(f"label is {label!r}, expected one of {', '.join(map(str, self.classes_))}")
        return int(found[0])

    def _feature(self, feature: Any) -> int:
        if not is_feature(feature, self.coef_.shape[1]):
            raise InputError(f"there is no feature {feature!r}, expected 0 to {self.coef_.shape[1] - 1}")
        return int(feature)


def _numbered(y: Any) -> tuple[Array, Array]:
    """The classes, and the number of each label's class."""
    if y is None:
        raise InputError("NonNegativeClassifier requires y to be passed, but the target y is None")
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    classes = unique_labels(y)
    return classes, np.searchsorted(classes, y)


def _codes(embedding: NonNegativeEmbedding, X: Any) -> sp.csr_array:
    """In float64, so that a score does not depend on what other rows it is computed with."""
    X = embedding._validated(X, reset=False)
    head = deepcopy(embedding.head_).cpu().double()
    return encoded(head, Rows(X, device=torch.device("cpu"), dtype=torch.float64))


def _one_row(x: Any, width: int, named: bool) -> Any:
    """A vector as `(1, width)`; where columns are named, a row of a DataFrame keeps their names."""
    if named and hasattr(x, "iloc"):
        x = x.to_frame().T if x.ndim == 1 else x
    elif not isinstance(x, Tensor):
        x = np.asarray(x)
    x = x.reshape(1, -1) if x.ndim == 1 else x
    if x.ndim != 2 or x.shape[0] != 1:
        raise InputError(f"x has shape {tuple(x.shape)}, expected one row, ({width},) or (1, {width})")
    return x
