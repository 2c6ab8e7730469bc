import numpy as np
import pytest


@pytest.fixture(scope="module", autouse=True)
def in_one_thread(one_thread):
    """All fits of this room are small."""


@pytest.fixture(scope="session")
def clusters():
    """Vectors of six kinds in 24 dimensions, and which kind each is."""
    rng = np.random.default_rng(0)
    kinds = np.arange(300) % 6
    centres = rng.normal(size=(6, 24))
    return (centres[kinds] + 0.4 * rng.normal(size=(300, 24))).astype(np.float32), kinds
