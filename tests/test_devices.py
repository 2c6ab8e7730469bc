import pytest
import torch

from nonneg.devices import choose_device
from nonneg.errors import InputError


@pytest.mark.parametrize("name", ["no such device", "meta", "cuda:99", {}])
def test_a_device_that_does_not_work_is_rejected_by_name(name):
    with pytest.raises(InputError, match=f"device '{name}'"):
        choose_device(name)


@pytest.mark.parametrize("name", [None, "auto"])
def test_without_a_name_the_device_is_a_gpu_if_there_is_one(name):
    assert choose_device(name).type == ("cuda" if torch.cuda.is_available() else "cpu")
