"""Features with ids, labels, media, texts and names, sparse and dense."""

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg.features import Features


@pytest.fixture
def dense():
    z = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32).clip(0)
    z[:, 4] = 0
    return z


@pytest.fixture(params=["sparse", "dense"])
def features(request, dense):
    return Features(
        sp.csr_array(dense) if request.param == "sparse" else dense,
        ids=[f"sample {i}" for i in range(30)],
        labels=np.arange(30) % 3,
        label_names=("circle", "square", "star"),
        media=[bytes([i]) for i in range(30)],
        texts=[f"text {i} ☃" for i in range(30)],
        names={2: "wheels"},
        provenance={"seed": 0},
    )
