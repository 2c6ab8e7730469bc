"""Several processes that train together: what the first does for all, and what each of them gives."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from nonneg.errors import InputError

Result = TypeVar("Result")


def by_first(fabric: Any, work: Callable[[], Result]) -> Result | None:
    """The first process does it, the others wait until it is done; where it fails, all of them fail.

    Returns:
        What came of it to the first process, None to the others.
    """
    result, failure = None, None
    if fabric.is_global_zero:
        try:
            result = work()
        except Exception as error:
            failure = error
    sentence = fabric.broadcast(None if failure is None else str(failure))
    fabric.barrier()  # none leaves, nor takes the connection with it, before all have heard
    if failure is not None:
        raise failure
    if sentence is not None:
        raise InputError(sentence)
    return result


def gathered(tensor: Tensor, fabric: Any) -> list[Tensor]:
    """One of each process, all of the same shape."""
    if fabric.world_size == 1:
        return [tensor]
    here = tensor.to(fabric.device)
    tensors = [torch.empty_like(here) for _ in range(fabric.world_size)]
    dist.all_gather(tensors, here)
    return tensors
