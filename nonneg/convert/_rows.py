"""Vectors wherever they lie: arrays, memory maps, tensors, Arrow columns; read a few rows at a time."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

_ROUNDING = 1e-6  # how far apart two rows of length 1 can be that are multiples of each other, in float32


class Rows:
    """Vectors `(rows, width)`, of which only what is asked for is read.

    Args:
        *parts: NumPy arrays, memory maps or torch tensors of one width; the rows of the second follow those
            of the first.
        device: where the rows that are asked for go.
        dtype: what they are computed in from there on.
    """

    def __init__(self, *parts: Any, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        self.parts, self.device, self.dtype = parts, device, dtype
        self.bounds = [0, *np.cumsum([len(part) for part in parts]).tolist()]

    def __len__(self) -> int:
        return int(self.bounds[-1])

    @property
    def width(self) -> int:
        return int(self.parts[0].shape[1])

    def take(self, rows: Tensor) -> Tensor:
        """These rows, scaled to length 1, on the device. Rows of zeros stay zeros."""
        found = torch.empty(len(rows), self.width, dtype=self.dtype, device=self.device)
        for part, start, stop in zip(self.parts, self.bounds, self.bounds[1:], strict=False):
            wanted = torch.nonzero((rows >= start) & (rows < stop)).flatten()
            wanted = wanted[rows[wanted].argsort()]  # in the order they lie in: a memory map is read forwards
            found[wanted.to(self.device)] = self._tensor(part, rows[wanted] - start)
        return unit(found)

    def blocks(self, size: int) -> Iterator[Tensor]:
        """All rows in order, so many at a time, as `take`."""
        for part in self.parts:
            for start in range(0, len(part), size):
                yield unit(self._tensor(part, slice(start, start + size)))

    def _tensor(self, part: Any, rows: Tensor | slice) -> Tensor:
        if isinstance(part, Tensor):
            wanted = rows.to(part.device) if isinstance(rows, Tensor) else rows
            return within_range(part[wanted].detach(), self.dtype).to(self.device, self.dtype)
        # Copied, and as floats that torch knows: a read-only memory map it would warn of.
        block = _known_floats(np.array(part[rows.numpy() if isinstance(rows, Tensor) else rows]))
        return within_range(torch.from_numpy(block), self.dtype).to(self.device, self.dtype)


def _known_floats(block: Any) -> Any:
    """As float16, float32 or float64 in this machine's order of bytes; longer floats scaled by rows to fit."""
    if block.dtype.kind != "f":
        return block.astype(np.float64)
    if block.dtype.itemsize > 8:
        largest = np.abs(block).max(1, keepdims=True)
        return (block / np.where(np.isfinite(largest) & (largest > 0), largest, 1)).astype(np.float64)
    return block.astype(block.dtype.newbyteorder("="), copy=False)


def within_range(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows; those that are too large or too small for `dtype` divided by their largest entry: directions count.

    Example:
        >>> within_range(torch.tensor([[3e40, 4e40], [3.0, 4.0]], dtype=torch.float64), torch.float32).tolist()
        [[0.75, 1.0], [3.0, 4.0]]
    """
    limits = torch.finfo(dtype)
    if not x.is_floating_point() or torch.finfo(x.dtype).max <= limits.max:
        return x
    largest = x.abs().amax(1, keepdim=True)
    is_small = (largest < limits.tiny / limits.eps) & (largest > 0)
    is_beyond = ((largest > limits.max) & largest.isfinite()) | is_small
    return x / torch.where(is_beyond, largest, 1.0)


def unit(x: Tensor) -> Tensor:
    """Rows of length 1; those of zeros stay."""
    # Divided by the largest entry first, so that the squares of tiny or huge ones are neither 0 nor infinite.
    least = torch.finfo(x.dtype).tiny
    scaled: Tensor = x / x.abs().amax(1, keepdim=True).clamp(min=least)
    length: Tensor = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return scaled / length.clamp(min=least)


def have_one_direction(x: Tensor, first: Tensor) -> bool:
    """Whether rows of length 1, `(rows, width)`, point where `first` points, `(width,)`, but for rounding."""
    return bool((torch.linalg.vector_norm(x - first, dim=1) < _ROUNDING).all())
