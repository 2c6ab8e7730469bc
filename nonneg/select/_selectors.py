"""Feature selectors with the scikit-learn interface: `fit`, then `transform` or `get_support`."""

import numbers
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from nonneg import metrics
from nonneg.errors import InputError
from nonneg.select._elimination import elimination_ranks
from nonneg.select._reconstruction import reconstruction_scores
from nonneg.select._scores import Array, expected_activation, mutual_information, variance


def strongest(scores: Array, keep: int) -> Array:
    """Return the indices of the `keep` largest scores in ascending order; ties go to the first.

    Example:
        >>> strongest(np.array([0.1, 0.5, 0.5, 0.5]), 2)
        array([1, 2])
    """
    return np.sort(np.argsort(-scores, kind="stable")[:keep])


def require_count(count: Any, features: int, subject: str) -> None:
    """Raise an error unless `count` is a whole number from 1 to `features`; `subject` starts the message."""
    # NumPy integers are accepted; True and 2.0 are not.
    if np.asarray(count).dtype.kind not in "iu" or not 1 <= count <= features:
        raise InputError(f"{subject} {count!r}, expected 1 to {features}, the number of features")


class _Selector(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Keeps the features with the largest `scores_`, which subclasses define."""

    n_features_to_select: int

    def _validated(self, X: Any, dtype: Any = "numeric", least: int = 1) -> Any:
        X = validate_data(self, X, accept_sparse="csr", dtype=dtype, ensure_min_samples=least)
        require_count(self.n_features_to_select, X.shape[1], "n_features_to_select is")
        return X

    def _kept_by(self, scores: Array) -> Self:
        self.scores_ = scores
        self.support_ = np.zeros(len(scores), bool)
        self.support_[strongest(scores, int(self.n_features_to_select))] = True
        return self

    def _get_support_mask(self) -> Array:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _LabelledSelector(_Selector):
    """Keeps features by their relation to labels."""

    def _validated_both(self, X: Any, y: Any) -> tuple[Any, Any]:
        X = self._validated(X)
        if y is None:
            raise InputError(f"{type(self).__name__}: requires y to be passed, but the target y is None")
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        check_classification_targets(y)
        return X, y

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class ExpectedActivation(_Selector):
    """Keeps the most active features, by the mean of f_i/‖f‖₂.

    Args:
        n_features_to_select: number of features to keep.
        rectify: score max(f, 0), as a non-negative model does.
        absolute: score |f|; `rectify` is then ignored.

    Attributes:
        scores_: `(features,)` expected activation.

    Example:
        >>> X = np.array([[3.0, 0.0, 4.0], [0.0, 1.0, 2.0]])
        >>> ExpectedActivation(2).fit_transform(X)
        array([[3., 4.],
               [0., 2.]])
    """

    def __init__(self, n_features_to_select: int = 512, rectify: bool = True, absolute: bool = False) -> None:
        self.n_features_to_select = n_features_to_select
        self.rectify = rectify
        self.absolute = absolute

    def fit(self, X: Any, y: Any = None) -> Self:
        """Score the features of `(samples, features)`, NumPy or CSR; `y` is ignored."""
        return self._kept_by(expected_activation(self._validated(X), self.rectify, self.absolute))


class Variance(_Selector):
    """Keeps the features with the largest variance.

    Args:
        n_features_to_select: number of features to keep.

    Attributes:
        scores_: `(features,)` variance over the samples.

    Example:
        >>> Variance(1).fit(np.array([[3.0, 0.0], [3.0, 1.0]])).get_support(indices=True)
        array([1])
    """

    def __init__(self, n_features_to_select: int = 512) -> None:
        self.n_features_to_select = n_features_to_select

    def fit(self, X: Any, y: Any = None) -> Self:
        """Score the features of `(samples, features)`, NumPy or CSR; `y` is ignored."""
        return self._kept_by(variance(self._validated(X)))


class Reconstruction(_Selector):
    """Keeps the features from which all others can best be computed linearly, chosen one by one.

    Features that repeat others are left out, so that little of what a linear probe could use is lost.

    Args:
        n_features_to_select: number of features to keep.

    Attributes:
        scores_: `(features,)` order of choice: the first choice has the largest score.

    Example:
        >>> X = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])  # the first two repeat each other
        >>> Reconstruction(2).fit(X).get_support(indices=True)
        array([0, 2])
    """

    def __init__(self, n_features_to_select: int = 512) -> None:
        self.n_features_to_select = n_features_to_select

    def fit(self, X: Any, y: Any = None) -> Self:
        """Rank the features of `(samples, features)`, NumPy or CSR; `y` is ignored."""
        return self._kept_by(reconstruction_scores(self._validated(X), int(self.n_features_to_select)))


class RandomFeatures(_Selector):
    """Keeps random features: the baseline for every other selector.

    Args:
        n_features_to_select: number of features to keep.
        random_state: of the draw.

    Attributes:
        scores_: `(features,)` random numbers.

    Example:
        >>> RandomFeatures(2, random_state=0).fit_transform(np.eye(4)).shape
        (4, 2)
    """

    def __init__(
        self, n_features_to_select: int = 512, random_state: int | np.random.RandomState | None = None
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw from the features of `(samples, features)`, NumPy or CSR; `y` is ignored."""
        X = self._validated(X)
        return self._kept_by(check_random_state(self.random_state).random_sample(X.shape[1]))


class MutualInformation(_LabelledSelector):
    """Keeps the features with the largest mutual information with the label.

    Args:
        n_features_to_select: number of features to keep.
        bins: number of quantiles of a feature's non-zero values; zero is a value of its own.

    Attributes:
        scores_: `(features,)` mutual information with the label, in nats.

    Example:
        >>> X = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
        >>> MutualInformation(1).fit(X, ["cat", "cat", "dog", "dog"]).get_support()
        array([ True, False])
    """

    def __init__(self, n_features_to_select: int = 512, bins: int = 4) -> None:
        self.n_features_to_select = n_features_to_select
        self.bins = bins

    def fit(self, X: Any, y: Any) -> Self:
        """Score the features of `(samples, features)`, NumPy or CSR, by labels `(samples,)`."""
        X, y = self._validated_both(X, y)
        if np.asarray(self.bins).dtype.kind not in "iu" or self.bins < 1:
            raise InputError(f"bins is {self.bins!r}, expected a whole number, at least 1")
        return self._kept_by(mutual_information(X, y, int(self.bins)))


class Elimination(_LabelledSelector):
    """Keeps the features that a linear probe of the label needs most, judged together (backward elimination).

    A probe is fitted, and the features it needs least are removed one by one, while the other weights compensate for
    each. The probe is fitted again whenever an eighth of the features has been removed.

    Args:
        n_features_to_select: number of features to keep.
        alpha: regularisation strength of the probe, relative to its mean loss; features are standardised.

    Attributes:
        scores_: `(features,)` order of removal: 1 for the feature removed first; 0 for constant features.

    Example:
        >>> X = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
        >>> Elimination(1).fit(X, ["cat", "cat", "dog", "dog"]).get_support()
        array([ True, False])
    """

    def __init__(self, n_features_to_select: int = 512, alpha: float = 0.02) -> None:
        self.n_features_to_select = n_features_to_select
        self.alpha = alpha

    def fit(self, X: Any, y: Any) -> Self:
        """Rank the features of `(samples, features)`, NumPy or CSR (made dense), by labels `(samples,)`."""
        X, y = self._validated_both(X, y)
        alpha: Any = self.alpha
        is_number = isinstance(alpha, numbers.Real) and not isinstance(alpha, bool)
        if not is_number or not 1e-8 <= alpha <= 1e8:
            raise InputError(f"alpha is {alpha!r}, expected a number from 1e-8 to 1e8")
        return self._kept_by(elimination_ranks(X, y, float(alpha)))


class Sepin(_Selector):
    """Keeps the features with the most information that no other feature carries (`metrics.sepin`).

    Args:
        n_features_to_select: number of features to keep.
        temperature: of the contrastive estimate.
        renormalise: scale samples to length 1 after removing the feature.
        max_samples: number of samples to draw if there are more; each is an anchor and a negative of all others.
        random_state: of the draw.

    Attributes:
        scores_: `(features,)` information of each feature, given all others.
    """

    def __init__(
        self,
        n_features_to_select: int = 512,
        temperature: float = 0.2,
        renormalise: bool = True,
        max_samples: int = 2048,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.temperature = temperature
        self.renormalise = renormalise
        self.max_samples = max_samples
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, views: Any = None) -> Self:
        """Score the features of `(samples, features)` by a second view of the same samples; `y` is ignored."""
        if views is None:
            raise InputError("Sepin: views is None, expected features of a second view of the same samples")
        kinds = (np.float64, np.float32)
        X = self._validated(X, dtype=kinds, least=2)
        views = check_array(views, accept_sparse="csr", dtype=kinds, input_name="views", estimator=self)
        if views.shape != X.shape:
            raise InputError(f"Sepin: views has shape {views.shape}, expected that of X, {X.shape}")
        if np.asarray(self.max_samples).dtype.kind not in "iu" or self.max_samples < 2:
            raise InputError(f"Sepin: max_samples is {self.max_samples!r}, expected a whole number, at least 2")
        if X.shape[0] > self.max_samples:
            rows = check_random_state(self.random_state).choice(X.shape[0], self.max_samples, replace=False)
            X, views = X[np.sort(rows)], views[np.sort(rows)]
        found = metrics.sepin(X, views, temperature=self.temperature, renormalise=self.renormalise)
        return self._kept_by(np.asarray(found.per_feature.cpu(), np.float64))
