import numpy as np
import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small fits wait more than they gain with several threads, most of all where other tests run beside them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def clusters():
    """Vectors of six kinds in 24 dimensions, and which kind each is."""
    rng = np.random.default_rng(0)
    kinds = np.arange(300) % 6
    centres = rng.normal(size=(6, 24))
    return (centres[kinds] + 0.4 * rng.normal(size=(300, 24))).astype(np.float32), kinds
