"""Batches: an array, or a tuple or dictionary of arrays, whose first axis runs over samples."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch


def map_arrays(function: Callable[[Any], Any], batch: Any) -> Any:
    """Apply a function to every array of a batch; a list becomes a tuple.

    Example:
        >>> map_arrays(len, {"tokens": np.zeros((4, 9)), "mask": np.ones((4, 9))})
        {'tokens': 4, 'mask': 4}
    """
    if isinstance(batch, dict):
        return {name: map_arrays(function, part) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        return tuple(map_arrays(function, part) for part in batch)
    return function(batch)


def arrays_of(batch: Any) -> Iterator[Any]:
    """Yield every array of a batch, in order."""
    if isinstance(batch, dict | tuple | list):
        for part in batch.values() if isinstance(batch, dict) else batch:
            yield from arrays_of(part)
    else:
        yield batch


def as_tensors(batch: Any) -> Any:
    """Convert the NumPy arrays of a batch to tensors, without copies unless torch needs them; keep tensors."""

    def tensor(part: Any) -> torch.Tensor:
        if isinstance(part, torch.Tensor):
            return part
        return torch.from_numpy(part if part.flags.writeable and part.flags.c_contiguous else np.array(part))

    return map_arrays(tensor, batch)
