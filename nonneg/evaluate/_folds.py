"""The protocol of the literature on whole graphs: 10-fold cross-validation with an SVM and with logistic regression."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.evaluate._logistic import fit_strengths
from nonneg.evaluate._probe import labelled, require_labels
from nonneg.features import Features

FOLDS = 10
_STRENGTHS = tuple(10.0**power for power in range(-3, 4))
_VALIDATION = 0.1
_MOST_FOR_KERNEL = 10_000  # samples, whose kernel takes 800 MB
Fits = Callable[[Any, Any, tuple[float, ...]], Iterator[Callable[[Any], Any]]]


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
    x, y = codes.double().numpy(), np.unique(numbers.numpy(), return_inverse=True)[1]
    fewest = int(np.bincount(y).min())
    if fewest < FOLDS:
        raise InputError(f"cross_validation: a class has {fewest} samples, expected at least {FOLDS}, one per fold")
    if y.max() < 1:
        raise InputError("cross_validation: all labelled samples have one class, expected at least 2 classes")
    divisions = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, y)
    found = [[_accuracy(kind, x, y, known, test, seed) for kind in (_svm, _logistic)] for known, test in divisions]
    svm, logistic = np.array(found).T
    return FoldProbes(svm, logistic)


def _accuracy(fits: Fits, x: Any, y: Any, known: Any, test: Any, seed: int) -> float:
    size = max(int(np.ceil(_VALIDATION * len(known))), int(y.max()) + 1)  # at least one sample per class
    kept, chosen_on = train_test_split(known, test_size=size, stratify=y[known], random_state=seed)
    scale = StandardScaler().fit(x[kept])
    fitted = fits(scale.transform(x[kept]), y[kept], _STRENGTHS)
    scores = [float((predict(scale.transform(x[chosen_on])) == y[chosen_on]).mean()) for predict in fitted]
    best = _STRENGTHS[int(np.argmax(scores))]  # the first of the best: the strongest regularisation
    scale = StandardScaler().fit(x[known])
    predict = next(fits(scale.transform(x[known]), y[known], (best,)))
    return float((predict(scale.transform(x[test])) == y[test]).mean())


def _svm(x: Any, y: Any, strengths: tuple[float, ...]) -> Iterator[Callable[[Any], Any]]:
    if len(x) > _MOST_FOR_KERNEL:
        yield from (SVC(C=C).fit(x, y).predict for C in strengths)
        return
    # The same, but the kernel is computed once for all strengths, which takes most of the time.
    kernel = partial(rbf_kernel, Y=x, gamma=1 / (x.shape[1] * (x.var() or 1)))
    similarities = kernel(x)
    for C in strengths:
        model = SVC(C=C, kernel="precomputed").fit(similarities, y)
        yield lambda rows, model=model: model.predict(kernel(rows))  # type: ignore[misc]


def _logistic(x: Any, y: Any, strengths: tuple[float, ...]) -> Iterator[Callable[[Any], Any]]:
    device = choose_device()
    known = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
    for model in fit_strengths(*known, int(y.max()) + 1, strengths):
        yield lambda rows, model=model: model.predict(torch.from_numpy(rows).to(device)).cpu().numpy()  # type: ignore[misc]
