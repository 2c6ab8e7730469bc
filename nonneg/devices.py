"""The device that computations run on."""

import torch

from nonneg.errors import InputError
from nonneg.messages import one_line


def choose_device(name: str | torch.device | None = None) -> torch.device:
    """Return a device that works; for None or "auto", a CUDA device if there is one, otherwise the CPU.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    if name is None or name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise RuntimeError("it holds no data")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:  # torch asserts that it was built with CUDA
        raise InputError(f"device {str(name)!r} cannot be used: {one_line(error)}") from error
    return device
