"""The protocol of the literature on whole graphs: 10-fold cross-validation with an SVM and with logistic regression."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from nonneg.errors import InputError
from nonneg.evaluate._probe import labelled, require_labels
from nonneg.features import Features

FOLDS = 10
_STRENGTHS = tuple(10.0**power for power in range(-3, 4))
_VALIDATION = 0.1


@dataclass(frozen=True)
class FoldProbes:
    """Accuracies `(folds,)` on the fold that a classifier was not fitted on."""

    svm: npt.NDArray[np.float64]
    logistic: npt.NDArray[np.float64]


def cross_validation(features: Features, seed: int = 0) -> FoldProbes:
    """Fit an SVM (RBF kernel) and logistic regression on nine tenths of the labelled samples, test on the last tenth.

    Each feature is standardised on the nine tenths. The strength is chosen on a tenth of these, then the classifier is
    fitted on all of them.

    Args:
        features: with labels; unlabelled samples are left out.
        seed: decides the folds, so that all features of the same samples are divided alike.

    Example:
        >>> labels = np.arange(100) % 2
        >>> cross_validation(Features(np.eye(2, dtype=np.float32)[labels], labels=labels)).svm.mean()
        np.float64(1.0)
    """
    require_labels(features, "given", "cross_validation")
    codes, numbers = labelled(features, torch.device("cpu"))
    x, y = codes.numpy(), numbers.numpy()
    fewest = int(np.bincount(y)[np.unique(y)].min())
    if fewest < FOLDS:
        raise InputError(f"cross_validation: a class has {fewest} samples, expected at least {FOLDS}, one per fold")
    divisions = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, y)
    found = [[_accuracy(kind, x, y, known, test, seed) for kind in (SVC, _logistic)] for known, test in divisions]
    svm, logistic = np.array(found).T
    return FoldProbes(svm, logistic)


def _logistic(C: float) -> LogisticRegression:
    return LogisticRegression(C=C, max_iter=1000)


def _accuracy(kind: Callable[..., Any], x: Any, y: Any, known: Any, test: Any, seed: int) -> float:
    kept, chosen_on = train_test_split(known, test_size=_VALIDATION, stratify=y[known], random_state=seed)
    scores = [_fitted(kind, C, x[kept], y[kept]).score(x[chosen_on], y[chosen_on]) for C in _STRENGTHS]
    best = _STRENGTHS[int(np.argmax(scores))]  # the first of the best: the strongest regularisation
    return float(_fitted(kind, best, x[known], y[known]).score(x[test], y[test]))


def _fitted(kind: Callable[..., Any], C: float, x: Any, y: Any) -> Any:
    return make_pipeline(StandardScaler(), kind(C=C)).fit(x, y)
