"""Codes to choose from."""

import numpy as np
import pytest

from nonneg import Features


@pytest.fixture(scope="module")
def codes():
    """Signed, two thirds of it zero, an empty row and a dead feature."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.33)
    X[3], X[:, 5] = 0, 0
    return X


@pytest.fixture(scope="module")
def labelled():
    """Train and test features of four kinds: four features tell the kind, a fifth is loud, the rest are faint noise."""
    rng = np.random.default_rng(1)

    def draw(samples: int) -> Features:
        kinds = np.arange(samples) % 4
        X = rng.random((samples, 16)) * (rng.random((samples, 16)) < 0.2)
        X[np.arange(samples), kinds] += 2 * (rng.random(samples) < 0.9)
        X[:, 4] = 3 * rng.random(samples)
        return Features(X, labels=kinds, ids=[f"s{i}" for i in range(samples)], names={0: "zero", 4: "loud"})

    return draw(200), draw(120)
