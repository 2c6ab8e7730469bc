"""Encoded images for people to look at: lossless where images are small, thumbnails where they are not."""

import struct
import subprocess
import sys
import threading
import zlib
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.errors import InputError
from nonneg.modalities.images import _jpeg
from nonneg.modalities.images._checksums import adler32, crc32, followed_by

Checksums = npt.NDArray[np.int64]
_LOSSLESS_SIDE = 64
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # PNG's: grey, grey with alpha, RGB, RGB with alpha


def thumbnails(images: npt.NDArray[np.uint8], checksums: Checksums | None = None) -> pa.LargeBinaryArray:
    """An encoded image for each.

    Args:
        images: `(samples, height, width, channels)`, of 1 to 4 channels.
        checksums: of small images, what `png_checksums` says of them, if that was asked already.

    Returns:
        PNG bytes of the very pixels for sides of up to 64; JPEG bytes of an image of at most 128
        pixels a side for larger ones.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> encoded = thumbnails(np.zeros((1, 300, 600, 3), np.uint8))
        >>> picture = Image.open(io.BytesIO(encoded[0].as_py()))
        >>> picture.format, picture.size
        ('JPEG', (128, 64))
    """
    if images.shape[3] not in _COLOUR_TYPES:
        raise InputError(f"images of {images.shape[3]} channels cannot be shown, expected 1 to 4; pass media=False")
    if is_lossless(images.shape):
        return _pngs(images, _zlib_checksums(images) if checksums is None else checksums)
    files = [_jpeg.jpeg(np.ascontiguousarray(image).data, *image.shape) for image in images]
    return pa.array(files, pa.large_binary())


def is_lossless(shape: tuple[int, ...]) -> bool:
    """Whether images of shape `(samples, height, width, channels)` are kept to the pixel."""
    return max(shape[1:3]) <= _LOSSLESS_SIDE


def png_checksums(images: Tensor) -> Tensor:
    """Those of a PNG of each image `(samples, height, width, channels)` uint8, where they are: `(2, samples)` int64.

    Example:
        >>> images = np.zeros((3, 8, 8, 1), np.uint8)
        >>> sums = png_checksums(torch.from_numpy(images)).numpy()
        >>> thumbnails(images, sums).equals(thumbnails(images))
        True
    """
    lines = F.pad(images.flatten(2), (1, 0)).flatten(1)
    adler = adler32(lines)
    return torch.stack((adler, crc32(followed_by(lines, adler), _opening(lines.shape[1]))))


def _zlib_checksums(images: npt.NDArray[np.uint8]) -> Checksums:
    lines = np.pad(images.reshape(*images.shape[:2], -1), ((0, 0), (0, 0), (1, 0))).reshape(len(images), -1)
    opened = zlib.crc32(_opening(lines.shape[1]))
    adler = [zlib.adler32(line.data) for line in lines]
    crc = [zlib.crc32(a.to_bytes(4), zlib.crc32(line.data, opened)) for a, line in zip(adler, lines, strict=True)]
    return np.array((adler, crc), np.int64)


def _opening(size: int) -> bytes:
    """What comes before the lines in the chunk that holds them: so many bytes, stored in one block."""
    return b"IDAT\x78\x01\x01" + struct.pack("<HH", size, size ^ 0xFFFF)


def _pngs(images: npt.NDArray[np.uint8], checksums: Checksums) -> pa.LargeBinaryArray:
    # Laid out by hand for the whole batch, pixels stored and not compressed: 40 times as many images
    # a second as Pillow compresses, for a third more bytes.
    samples, height, width, channels = images.shape
    line = 1 + width * channels  # begins with its filter, 0: none
    size = height * line  # at most 64 * (1 + 64 * 4): it fits the 65,535 bytes of one stored block
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    before = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + struct.pack(">I", size + 11) + _opening(size)
    after = _chunk(b"IEND", b"")
    start, stop = len(before), len(before) + size

    files = np.zeros((samples, stop + 8 + len(after)), np.uint8)
    files[:, :start] = np.frombuffer(before, np.uint8)
    files[:, start:stop].reshape(samples, height, line)[:, :, 1:] = images.reshape(samples, height, line - 1)
    adler, crc = checksums.astype(">u4")
    files[:, stop : stop + 4] = adler.view(np.uint8).reshape(-1, 4)
    files[:, stop + 4 : stop + 8] = crc.view(np.uint8).reshape(-1, 4)
    files[:, stop + 8 :] = np.frombuffer(after, np.uint8)
    offsets = np.arange(samples + 1, dtype=np.int64) * files.shape[1]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(files)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), samples, buffers)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


class JpegProcesses:
    """`thumbnails`, of large images by a process for each thread that asks.

    Example:
        >>> images = np.zeros((2, 300, 600, 3), np.uint8)
        >>> with JpegProcesses() as encode:
        ...     encode(images).equals(thumbnails(images))
        True
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __call__(self, images: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
        if is_lossless(images.shape) or images.shape[3] not in _COLOUR_TYPES:
            return thumbnails(images)
        if not hasattr(self._own, "process"):
            command = [sys.executable, "-P", _jpeg.__file__]
            self._own.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._started.append(self._own.process)
        try:
            return self._answered(self._own.process, images)
        except (OSError, ValueError):  # the process was ended by somebody
            return thumbnails(images)

    def _answered(self, process: "subprocess.Popen[bytes]", images: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(_jpeg.REQUEST.pack(*images.shape))
        process.stdin.write(np.ascontiguousarray(images).data)
        process.stdin.flush()
        offsets = np.zeros(len(images) + 1, np.int64)
        np.cumsum(np.frombuffer(process.stdout.read(4 * len(images)), "<u4"), out=offsets[1:])
        files = process.stdout.read(int(offsets[-1]))
        if len(files) != offsets[-1]:
            raise ValueError("the answer ended early")
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(files)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(images), buffers)

    def __exit__(self, *error: object) -> None:
        for process in self._started:
            process.communicate()  # closes its input, which ends it
