"""Vectors wherever they lie: arrays, memory maps, tensors, Arrow columns; read a few rows at a time."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Rows:
    """Vectors `(rows, width)`, of which only what is asked for is read.

    Args:
        *parts: NumPy arrays, memory maps or torch tensors of one width; the rows of the second follow those
            of the first.
        device: where the rows that are asked for go.
    """

    def __init__(self, *parts: Any, device: torch.device) -> None:
        self.parts, self.device = parts, device
        self.bounds = [0, *np.cumsum([len(part) for part in parts]).tolist()]

    def __len__(self) -> int:
        return int(self.bounds[-1])

    @property
    def width(self) -> int:
        return int(self.parts[0].shape[1])

    def take(self, rows: Tensor) -> Tensor:
        """These rows, scaled to length 1, in float32 on the device. Rows of zeros stay zeros."""
        found = torch.empty(len(rows), self.width, device=self.device)
        for part, start, stop in zip(self.parts, self.bounds, self.bounds[1:], strict=False):
            wanted = torch.nonzero((rows >= start) & (rows < stop)).flatten()
            wanted = wanted[rows[wanted].argsort()]  # in the order they lie in: a memory map is read forwards
            found[wanted.to(self.device)] = _tensor(part, rows[wanted] - start, self.device)
        return unit(found)

    def blocks(self, size: int) -> Iterator[Tensor]:
        """All rows in order, so many at a time, as `take`."""
        for part in self.parts:
            for start in range(0, len(part), size):
                yield unit(_tensor(part, slice(start, start + size), self.device))


def _tensor(part: Any, rows: Tensor | slice, device: torch.device) -> Tensor:
    if isinstance(part, Tensor):
        wanted = rows.to(part.device) if isinstance(rows, Tensor) else rows
        taken: Tensor = part[wanted].detach()
        return taken.to(device, torch.float32)
    block = part[rows.numpy() if isinstance(rows, Tensor) else rows]
    # A read-only memory map in float32 would be taken as it is, and torch warn of it.
    return torch.from_numpy(np.array(block, dtype=np.float32)).to(device)


def unit(x: Tensor) -> Tensor:
    """Rows of length 1; those of zeros stay."""
    # Divided by the largest entry first, so that the squares of tiny or huge ones are neither 0 nor infinite.
    least = torch.finfo(x.dtype).tiny
    scaled: Tensor = x / x.abs().amax(1, keepdim=True).clamp(min=least)
    length: Tensor = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return scaled / length.clamp(min=least)
