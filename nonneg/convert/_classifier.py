"""`NonNegativeClassifier`: a glass box, whose predictions are sums of named contributions."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, column_or_1d

from nonneg.convert import _classifier_store
from nonneg.convert._embedding import NonNegativeEmbedding
from nonneg.convert._head import encoded
from nonneg.convert._rows import Rows
from nonneg.errors import InputError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Contribution:
    """What one feature adds to the score of one class: `activation * weight`."""

    feature: int
    name: str
    activation: float
    weight: float

    @property
    def value(self) -> float:
        return self.activation * self.weight


@dataclass(frozen=True)
class Explanation:
    """Why a sample is what it is said to be.

    Attributes:
        label: the class explained: the predicted one, unless another one was asked for.
        score: of that class: the intercept and the contributions, added up.
        intercept: what the class gets without any feature.
        contributions: of the active features, largest first.
    """

    label: Any
    score: float
    intercept: float
    contributions: tuple[Contribution, ...]

    def __str__(self) -> str:
        lines = [f"{self.label}: {self.score:.3f}", f"  {self.intercept:+.3f}  (any sample)"]
        telling = [c for c in self.contributions if c.value > 0]
        lines += [f"  {c.value:+.3f}  {c.name} ({c.activation:.3f} x {c.weight:.3f})" for c in telling]
        if silent := len(self.contributions) - len(telling):
            lines.append(f"  {silent} more active features say nothing of it")
        return "\n".join(lines)


@dataclass(frozen=True)
class WhatIf:
    """Accuracy before and after a change, and how many predictions it changes."""

    before: float
    after: float
    changed: int


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
        if not self.C > 0:
            raise InputError(f"C is {self.C!r}, expected a number above 0")
        if y is None:
            raise InputError("NonNegativeClassifier requires y to be passed, but the target y is None")
        embedding = NonNegativeEmbedding() if self.embedding is None else clone(self.embedding)
        if embedding.random_state is None:
            embedding.set_params(random_state=self.random_state)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        X = embedding._validated(X, reset=True)
        if len(X) != len(y):
            raise InputError(f"X has {len(X)} samples and y {len(y)} labels, expected as many")
        self.classes_ = unique_labels(y)
        numbers = np.searchsorted(self.classes_, y)
        self.embedding_ = embedding.fit(X, numbers)
        self.n_features_in_ = embedding.n_features_in_
        self.coef_, self.intercept_, self.n_iter_ = _fit_head(
            self._codes(X), numbers, len(self.classes_), self.C, self.max_iter
        )
        return self

    @classmethod
    def on(cls, embedding: NonNegativeEmbedding, X: Any, y: Any, C: float = 1.0) -> Self:
        """A classifier on an embedding that is fitted already: the head alone is fitted, the codes stay as they are.

        Args:
            embedding: fitted.
            X: vectors `(samples, width)`.
            y: a label for each.
            C: as for the class.
        """
        check_is_fitted(embedding)
        self = cls(embedding, C)
        y = column_or_1d(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y has {len(self.classes_)} classes, expected two or more")
        self.embedding_, self.n_features_in_ = embedding, embedding.n_features_in_
        self.coef_, self.intercept_, self.n_iter_ = _fit_head(
            self._codes(X), numbers, len(self.classes_), C, self.max_iter
        )
        return self

    def _codes(self, X: Any) -> sp.csr_array:
        """In float64, so that a score does not depend on what other rows it is computed with."""
        check_is_fitted(self)
        X = self.embedding_._validated(X, reset=False)
        head = deepcopy(self.embedding_.head_).cpu().double()
        return encoded(head, Rows(X, device=torch.device("cpu"), dtype=torch.float64))

    def _scores(self, X: Any) -> Array:
        scores: Array = self._codes(X) @ self.coef_.T + self.intercept_
        return scores

    def decision_function(self, X: Any) -> Array:
        """Scores `(samples, classes)`; of two classes, the second's less the first's, `(samples,)`."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Probabilities `(samples, classes)`."""
        return np.asarray(softmax(self._scores(X), axis=1))

    def predict(self, X: Any) -> Array:
        """The class of the highest score."""
        best = self._scores(X).argmax(1)
        return np.asarray(self.classes_[best])

    # Reading and changing it

    def explain(self, x: Any, label: Any = None) -> Explanation:
        """What the score of a class is made of, for one vector.

        Args:
            x: `(width,)` or `(1, width)`.
            label: the class to explain; the predicted one if left out.
        """
        row = self._codes(np.asarray(x).reshape(1, -1))
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
            weights: by (feature, label), a number, at least 0.
        """
        check_is_fitted(self)
        other = deepcopy(self)
        for feature in off:
            other.coef_[:, self._feature(feature)] = 0
        for (feature, label), weight in (weights or {}).items():
            if not weight >= 0:
                raise InputError(f"the weight of feature {feature} for {label!r} is {weight!r}, expected at least 0")
            other.coef_[self._class(label), self._feature(feature)] = weight
        return other

    def what_if(
        self, X: Any, y: Any, off: Iterable[int] = (), weights: Mapping[tuple[int, Any], float] | None = None
    ) -> WhatIf:
        """Accuracy on these samples as it is, and as it would be after `edited(off, weights)`."""
        before, after = self.predict(X), self.edited(off, weights).predict(X)
        return WhatIf(float(accuracy_score(y, before)), float(accuracy_score(y, after)), int((before != after).sum()))

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write the embedding, the head's weights and the classes to a folder, for `from_pretrained`."""
        check_is_fitted(self)
        return _classifier_store.save(self, Path(folder))

    @classmethod
    def from_pretrained(cls, path: str | Path) -> "NonNegativeClassifier":
        """A fitted classifier from the folder it was saved to."""
        return _classifier_store.load(path)

    def _class(self, label: Any) -> int:
        found = np.flatnonzero(self.classes_ == label)
        if len(found) == 0:
            raise InputError(f"label is {label!r}, expected one of {', '.join(map(str, self.classes_))}")
        return int(found[0])

    def _feature(self, feature: int) -> int:
        if not 0 <= feature < self.coef_.shape[1]:
            raise InputError(f"there is no feature {feature!r}, expected 0 to {self.coef_.shape[1] - 1}")
        return feature


def _fit_head(codes: Any, labels: Array, classes: int, C: float, max_iter: int) -> tuple[Array, Array, int]:
    """Multinomial logistic regression with weights at least 0: convex, so where it starts does not matter."""
    samples, features = codes.shape
    hot = np.zeros((samples, classes))
    hot[np.arange(samples), labels] = 1
    transposed = codes.T.tocsr()

    def loss(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(features + 1, classes)
        likely = log_softmax(codes @ weights[:-1] + weights[-1], axis=1)
        error = np.exp(likely) - hot
        gradient = np.concatenate((C * (transposed @ error) + weights[:-1], C * error.sum(0, keepdims=True)))
        value = -C * float((likely * hot).sum()) + 0.5 * float(np.square(weights[:-1]).sum())
        return value / (C * samples), gradient.ravel() / (C * samples)

    start = np.zeros((features + 1) * classes)
    bounds = [(0, None)] * (features * classes) + [(None, None)] * classes
    options = {"maxiter": max_iter, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-7}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    weights = found.x.reshape(features + 1, classes)
    return np.ascontiguousarray(weights[:-1].T), weights[-1].copy(), max(1, int(found.nit))
