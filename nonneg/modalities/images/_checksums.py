"""Adler-32 and CRC-32 of many rows at once, by sums and a table: what a GPU does in no time.

zlib's are called row by row under Python's lock, which the thread that feeds a GPU cannot spare.
"""

import zlib
from functools import cache

import numpy as np
import torch
from torch import Tensor

_ADLER = 65521


def adler32(rows: Tensor) -> Tensor:
    """Of each row: `(rows, size)` uint8 to `(rows,)` int64, on any device.

    Example:
        >>> adler32(torch.tensor([[1, 2, 3]], dtype=torch.uint8)).item() == zlib.adler32(bytes([1, 2, 3]))
        True
    """
    size = rows.shape[1]
    remaining = torch.arange(size, 0, -1, device=rows.device)
    low = (rows.sum(1, dtype=torch.int64) + 1) % _ADLER
    high = ((rows * remaining).sum(1) + size) % _ADLER
    return (high << 16) | low


def crc32(rows: Tensor, before: bytes = b"") -> Tensor:
    """Of `before` and each row: `(rows, size)` uint8 to `(rows,)` int64, on any device.

    A CRC is linear: it is the exclusive or of what each byte, at its place, does to it.

    Example:
        >>> crc32(torch.tensor([[1, 2, 3]], dtype=torch.uint8), b"IDAT").item() == zlib.crc32(b"IDAT\\x01\\x02\\x03")
        True
    """
    size = rows.shape[1]
    effects = _effects(size, rows.device)
    of_place = torch.arange(0, 256 * size, 256, device=rows.device)
    changes = effects[rows + of_place]
    while (places := changes.shape[1]) > 1:  # halves upon each other: there is no such reduction
        half = places // 2
        folded = changes[:, :half] ^ changes[:, half : 2 * half]
        changes = torch.cat((folded, changes[:, 2 * half :]), 1) if places % 2 else folded
    return (changes[:, 0].long() & 0xFFFFFFFF) ^ zlib.crc32(before + bytes(size))


def followed_by(rows: Tensor, adler: Tensor) -> Tensor:
    """The rows, each followed by its Adler-32 in big-endian order, as a zlib stream ends."""
    shifts = torch.arange(24, -1, -8, device=rows.device)  # made there: to bring numbers to a GPU waits for it
    return torch.cat((rows, ((adler[:, None] >> shifts) & 255).byte()), 1)


@cache
def _effects(size: int, device: torch.device) -> Tensor:
    """`(size * 256,)` int32: what each byte at each place of a message does to its CRC."""
    table = np.array([zlib.crc32(bytes([value]), 0xFFFFFFFF) ^ 0xFFFFFFFF for value in range(256)], np.uint32)
    effects = np.empty((size, 256), np.uint32)
    now = table  # of the last byte
    for place in range(size - 1, -1, -1):
        effects[place] = now
        now = table[now & 255] ^ (now >> 8)  # one byte further from the end
    return torch.from_numpy(effects.view(np.int32).reshape(-1)).to(device)
