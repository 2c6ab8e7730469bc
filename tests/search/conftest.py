import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import Features


def some_codes(rows, features=60, active=8, seed=0):
    """Sparse codes; some features are active far more often than others, row 3 is empty, rows 5 and 6 are equal."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, features + 1) ** 0.7
    chosen = [np.sort(rng.choice(features, active, replace=False, p=share / share.sum())) for _ in range(rows)]
    dense = np.zeros((rows, features), np.float32)
    for row, columns in enumerate(chosen):
        dense[row, columns] = rng.gamma(2.0, size=active)
    dense[3] = 0
    dense[6] = dense[5]
    return sp.csr_array(dense)


@pytest.fixture(scope="session")
def codes():
    return some_codes(300)


@pytest.fixture(scope="session")
def queries(codes):
    """Codes of twelve rows, two dense random queries and one single feature."""
    rng = np.random.default_rng(1)
    return np.concatenate((codes[:12].toarray(), rng.random((2, codes.shape[1])), np.eye(1, codes.shape[1])))


@pytest.fixture(scope="session")
def labels():
    return np.arange(300) % 4 - 1  # a quarter is unlabelled


@pytest.fixture(scope="session")
def features(codes, labels):
    return Features(
        codes,
        ids=[f"s{row}" for row in range(300)],
        labels=labels,
        label_names=("cat", "dog", "owl"),
        texts=[f"text of {row}" for row in range(300)],
        names={1: "wheels", 2: "fur", 3: "fur"},
    )
