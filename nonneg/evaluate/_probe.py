"""The linear probe: how much of the labels can be read off the features by a linear map."""

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from nonneg.errors import InputError
from nonneg.features import Features

_STRENGTHS = (0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Probe:
    """Accuracy on the test features, and the inverse regularisation that validation chose."""

    accuracy: float
    C: float


def linear_probe(train: Features, test: Features, seed: int = 0) -> Probe:
    """Multinomial logistic regression on standardised, cached features.

    The regularisation is the one that does best on a fifth of `train` kept aside; `test` is looked
    at once, at the end.
    """
    for name, features in (("train", train), ("test", test)):
        if features.labels is None:
            raise InputError(f"linear_probe: the {name} features have no labels")
    x, y = _dense(train), train.labels
    fit_x, val_x, fit_y, val_y = train_test_split(x, y, test_size=0.2, stratify=y, random_state=seed)
    scores = {C: _classifier(C).fit(fit_x, fit_y).score(val_x, val_y) for C in _STRENGTHS}
    best = max(scores, key=scores.__getitem__)  # the strongest regularisation among equals
    accuracy = _classifier(best).fit(x, y).score(_dense(test), test.labels)
    return Probe(float(accuracy), best)


def _classifier(C: float) -> Pipeline:
    return make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=2000))


def _dense(features: Features) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    codes = features.codes.toarray() if features.is_sparse else features.codes
    return codes.astype(np.float32, copy=False)  # type: ignore[no-any-return]
