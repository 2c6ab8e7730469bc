"""Codes to select features of."""

import numpy as np
import pytest

from nonneg import Features


@pytest.fixture(scope="module")
def codes():
    """Signed codes, two thirds of them zero, with an empty row and a dead feature."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.33)
    X[3], X[:, 5] = 0, 0
    return X


@pytest.fixture(scope="module")
def labelled():
    """Train and test features of four classes: one feature per class, a fifth with large random values, weak noise."""
    rng = np.random.default_rng(1)

    def draw(samples: int) -> Features:
        classes = np.arange(samples) % 4
        X = rng.random((samples, 16)) * (rng.random((samples, 16)) < 0.2)
        X[np.arange(samples), classes] += 2 * (rng.random(samples) < 0.9)
        X[:, 4] = 3 * rng.random(samples)
        return Features(X, labels=classes, ids=[f"s{i}" for i in range(samples)], names={0: "zero", 4: "large"})

    return draw(200), draw(120)
