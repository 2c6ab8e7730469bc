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
            taken: Tensor = part[wanted].detach()
            return taken.to(self.device, self.dtype)
        # Copied, and as floats that torch knows: a read-only memory map it would warn of.
        block = np.array(part[rows.numpy() if isinstance(rows, Tensor) else rows])
        return torch.from_numpy(block if block.dtype.kind == "f" else block.astype(np.float64)).to(
            self.device, self.dtype
        )


def unit(x: Tensor) -> Tensor:
    """Rows of length 1; those of zeros stay."""
    # Divided by the largest entry first, so that the squares of tiny or huge ones are neither 0 nor infinite.
    least = torch.finfo(x.dtype).tiny
    scaled: Tensor = x / x.abs().amax(1, keepdim=True).clamp(min=least)
    length: Tensor = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return scaled / length.clamp(min=least)
