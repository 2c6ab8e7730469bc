import numpy as np
import pytest


@pytest.fixture(scope="module", autouse=True)
def in_one_thread(one_thread):
    """Run small fits in one thread, which is faster."""


@pytest.fixture(scope="session")
def clusters():
    """Vectors of six clusters in 24 dimensions, and the cluster of each."""
    rng = np.random.default_rng(0)
    kinds = np.arange(300) % 6
    centres = rng.normal(size=(6, 24))
    return (centres[kinds] + 0.4 * rng.normal(size=(300, 24))).astype(np.float32), kinds
