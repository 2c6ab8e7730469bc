"""Work that several training processes coordinate."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from nonneg.processes import all_or_none

Result = TypeVar("Result")


def on_first_process(fabric: Any, work: Callable[[], Result]) -> Result | None:
    """Run the work on the first process while the others wait; if it fails, all processes raise an error.

    Returns:
        The result on the first process, None on the others.
    """
    return all_or_none(lambda: work() if fabric.is_global_zero else None)


def gather(tensor: Tensor, fabric: Any) -> list[Tensor]:
    """Return the tensors of all processes, in order of rank; all have the same shape."""
    if fabric.world_size == 1:
        return [tensor]
    here = tensor.to(fabric.device)
    tensors = [torch.empty_like(here) for _ in range(fabric.world_size)]
    dist.all_gather(tensors, here)
    return tensors
