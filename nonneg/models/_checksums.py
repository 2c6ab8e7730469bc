"""Adler-32 and CRC-32 of many rows at once, by sums and a matrix product: what a GPU does in no time.

zlib's are called row by row under Python's lock, which the thread that feeds a GPU cannot spare.
"""

import zlib
from functools import cache

import numpy as np
import torch
from torch import Tensor

_ADLER = 65521
_BITS_AT_A_TIME = 2**25


def adler32(rows: Tensor) -> Tensor:
    """Of each row: `(rows, size)` uint8 to `(rows,)` int64, on any device.

    Example:
        >>> adler32(torch.tensor([[1, 2, 3]], dtype=torch.uint8)).item() == zlib.adler32(bytes([1, 2, 3]))
        True
    """
    values, size = rows.long(), rows.shape[1]
    remaining = torch.arange(size, 0, -1, device=rows.device)
    low = (values.sum(1) + 1) % _ADLER
    high = ((values * remaining).sum(1) + size) % _ADLER
    return (high << 16) | low


def crc32(rows: Tensor, before: bytes = b"") -> Tensor:
    """Of `before` and each row: `(rows, size)` uint8 to `(rows,)` int64, on any device.

    A CRC is linear in the bits of the message: each bit that is set flips bits of the CRC, and how
    often each of those is flipped is a product of matrices of zeros and ones, exact in float32 up to
    2^24 bits a row.

    Example:
        >>> crc32(torch.tensor([[1, 2, 3]], dtype=torch.uint8), b"IDAT").item() == zlib.crc32(b"IDAT\\x01\\x02\\x03")
        True
    """
    size = rows.shape[1]
    flips = _flips(size, rows.device)
    eight = torch.arange(8, dtype=torch.uint8, device=rows.device)
    places = 1 << torch.arange(32, device=rows.device)
    changes = []
    for some in rows.split(max(1, _BITS_AT_A_TIME // (8 * size))):
        bits = ((some[:, :, None] >> eight) & 1).view(len(some), -1)
        flipped = (bits.float() @ flips).long() & 1
        changes.append((flipped * places).sum(1))
    return torch.cat(changes) ^ zlib.crc32(before + bytes(size))


def with_adler32(rows: Tensor) -> Tensor:
    """The rows, each followed by its Adler-32 in big-endian order, as a zlib stream ends."""
    shifts = torch.tensor([24, 16, 8, 0], device=rows.device)
    return torch.cat((rows, ((adler32(rows)[:, None] >> shifts) & 255).byte()), 1)


@cache
def _flips(size: int, device: torch.device) -> Tensor:
    """`(8 * size, 32)`: which bits of the CRC each bit of a message flips, ones and zeros."""
    table = np.array([zlib.crc32(bytes([value]), 0xFFFFFFFF) ^ 0xFFFFFFFF for value in range(256)], np.uint32)
    effect = np.empty((size, 8), np.uint32)
    now = table[1 << np.arange(8)]  # of the last byte
    for place in range(size - 1, -1, -1):
        effect[place] = now
        now = table[now & 255] ^ (now >> 8)  # one byte further from the end
    ones = (effect.reshape(-1, 1) >> np.arange(32, dtype=np.uint32)) & 1
    return torch.from_numpy(ones.astype(np.float32)).to(device)
