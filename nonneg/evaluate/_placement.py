"""The device on which metrics compare codes."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from nonneg.devices import choose_device


def on_fastest_device(codes: Any) -> Any:
    """Move dense codes to the GPU if there is one, where comparing all samples with each other is fast.

    Sparse codes, and all codes on a machine without a GPU, are returned unchanged.

    Example:
        >>> on_fastest_device(sp.csr_array(np.eye(2))).shape
        (2, 2)
    """
    device = choose_device()
    if sp.issparse(codes) or device.type == "cpu":
        return codes
    return torch.from_numpy(np.array(codes)).to(device)  # a copy: torch requires writable memory
