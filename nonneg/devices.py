"""The device that work runs on."""

import torch

from nonneg.errors import InputError


def choose_device(name: str | torch.device | None = None) -> torch.device:
    """The named device, checked; for None or "auto", a CUDA device if there is one, else the CPU.

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
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built with CUDA
        raise InputError(f"device {str(name)!r} cannot be used: {' '.join(str(error).split())}") from error
    return device
