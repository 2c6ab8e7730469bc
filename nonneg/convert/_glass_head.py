"""The linear head of a glass-box classifier: non-negative weights on features that may have names."""

from collections.abc import Mapping
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import log_softmax

from nonneg.errors import InputError

Array = npt.NDArray[Any]


def fit_head(codes: sp.csr_array, labels: Array, classes: int, C: float, max_iter: int) -> tuple[Array, Array, int]:
    """Fit multinomial logistic regression with non-negative weights. It is convex: every start gives the same result.

    Args:
        codes: `(samples, features)`, CSR.
        labels: `(samples,)`, class numbers.
        classes: number of classes.
        C: inverse strength of the penalty.
        max_iter: maximum number of steps.

    Returns:
        Weights `(classes, features)`, intercepts `(classes,)`, and the number of steps made.

    Example:
        >>> weights, intercept, _ = fit_head(sp.csr_array(np.eye(2)), np.array([1, 0]), classes=2, C=1.0, max_iter=50)
        >>> (weights @ np.eye(2) + intercept[:, None]).argmax(0), bool((weights >= 0).all())
        (array([1, 0]), True)
    """
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


def check_names(names: Any, features: int) -> None:
    """Check the names of features: each belongs to an existing column.

    Example:
        >>> check_names({99: "wings"}, features=32)
        Traceback (most recent call last):
        nonneg.errors.InputError: feature_names names feature 99, expected 0 to 31
    """
    if names is None:
        return
    if not isinstance(names, Mapping):
        raise InputError(f"feature_names is a {type(names).__name__}, expected names by feature: {{3: 'wings'}}")
    for feature, name in names.items():
        if not is_feature(feature, features):
            raise InputError(f"feature_names names feature {feature!r}, expected 0 to {features - 1}")
        if not isinstance(name, str):
            raise InputError(f"feature_names calls feature {feature} {name!r}, expected a string")


def is_feature(value: Any, features: int) -> bool:
    """Whether a value is the number of a feature."""
    return not isinstance(value, bool) and isinstance(value, Integral) and 0 <= int(value) < features


def is_number(value: Any) -> bool:
    """Whether a value is a finite number and not a Boolean."""
    return not isinstance(value, bool) and isinstance(value, Real) and isfinite(value)
