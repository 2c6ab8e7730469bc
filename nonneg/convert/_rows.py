"""Vectors in arrays, memory maps, tensors or Arrow columns, read a few rows at a time."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nonneg.codes import unit_rows
from nonneg.errors import InputError
from nonneg.tables import as_floats

_BLOCK = 16_384
_ROUNDING = 1e-6  # the largest distance in float32 between unit rows of the same direction


class Rows:
    """Vectors `(rows, width)` that are read only where they are requested.

    Args:
        *parts: NumPy arrays, memory maps or torch tensors of one width; the rows of the second follow those
            of the first.
        device: where requested rows are put.
        dtype: of requested rows.
    """

    def __init__(self, *parts: Any, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        self.parts, self.device, self.dtype = parts, device, dtype
        self.bounds = [0, *np.cumsum([len(part) for part in parts]).tolist()]

    def __len__(self) -> int:
        return int(self.bounds[-1])

    @property
    def width(self) -> int:
        """Numbers per vector."""
        return int(self.parts[0].shape[1])

    def take(self, rows: Tensor) -> Tensor:
        """These rows, scaled to length 1, on the device. Zero rows stay zero."""
        found = torch.empty(len(rows), self.width, dtype=self.dtype, device=self.device)
        for part, start, stop in zip(self.parts, self.bounds, self.bounds[1:], strict=False):
            wanted = torch.nonzero((rows >= start) & (rows < stop)).flatten()
            wanted = wanted[rows[wanted].argsort()]  # a memory map is read forwards
            found[wanted.to(self.device)] = self._tensor(part, rows[wanted] - start)
        return unit(found)

    def blocks(self, size: int) -> Iterator[Tensor]:
        """All rows in order, `size` at a time, scaled as in `take`."""
        for part in self.parts:
            for start in range(0, len(part), size):
                yield unit(self._tensor(part, slice(start, start + size)))

    def _tensor(self, part: Any, rows: Tensor | slice) -> Tensor:
        if isinstance(part, Tensor):
            wanted = rows.to(part.device) if isinstance(rows, Tensor) else rows
            found = part[wanted].detach()
            # Only directions matter: numbers that float32 cannot hold are scaled before they are converted.
            return (unit(found) if found.dtype == torch.float64 else found).to(self.device, self.dtype)
        # A copy, because torch warns about read-only memory maps.
        block = np.array(part[rows.numpy() if isinstance(rows, Tensor) else rows])
        kind = np.float64 if self.dtype == torch.float64 else np.float32
        return torch.from_numpy(as_floats(block, kind)).to(self.device, self.dtype)


def check_rows(name: str, is_good: npt.NDArray[np.bool_], start: int, found: str, expected: str) -> None:
    """Raise an error that names the first row of a block that is not good; `start` is the number of its first row."""
    if not is_good.all():
        rows = start + np.flatnonzero(~is_good)
        others = f" (and {len(rows) - 1} more nearby)" if len(rows) > 1 else ""
        raise InputError(f"{name}, row {rows[0]}{others}, contains {found}, expected {expected}")


def zero_rows(X: Any) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows of an array or tensor that contain only zeros and so have no direction."""
    starts = range(0, len(X), _BLOCK)
    found = [torch.as_tensor((X[start : start + _BLOCK] == 0).all(1)).cpu().numpy() for start in starts]
    return np.flatnonzero(np.concatenate(found))


def unit(x: Tensor) -> Tensor:
    """Scale rows to length 1."""
    units: Tensor = unit_rows(x)
    return units


def have_one_direction(x: Tensor, first: Tensor | None = None) -> bool:
    """Whether unit rows `(rows, width)` have the direction of `first`, or of their first row, up to rounding."""
    distances = torch.linalg.vector_norm(x - (x[0] if first is None else first), dim=1)
    return bool((distances < _ROUNDING).all())


def row_keys(X: Any) -> npt.NDArray[np.int64]:
    """Return a 64-bit hash of the direction of each row `(rows,)`, rounded, so that precision does not matter.

    Example:
        >>> a, b = row_keys(np.array([[1.0, 2.0], [1.0, 2.5]])), row_keys(np.array([[1.0, 2.0]], np.float32))
        >>> bool(a[0] == b[0]), bool(a[0] == a[1])
        (True, False)
    """
    keys: list[bytes] = []
    for units in Rows(X, device=torch.device("cpu")).blocks(_BLOCK):
        rows = np.round(units.numpy() * 1e4).astype(np.int16)
        keys += [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
    return np.frombuffer(b"".join(keys), "<i8").astype(np.int64)
