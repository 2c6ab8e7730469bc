import pytest
import torch


@pytest.fixture(scope="module")
def one_thread():
    """Small fits wait more than they gain with several threads, most of all where other tests run beside them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
