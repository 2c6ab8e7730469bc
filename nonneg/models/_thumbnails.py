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

from nonneg.errors import InputError
from nonneg.models import _jpeg

_LOSSLESS_SIDE = 64
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # PNG's: grey, grey with alpha, RGB, RGB with alpha


def thumbnails(images: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    """An encoded image for each.

    Args:
        images: `(samples, height, width, channels)`, of 1 to 4 channels.

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
        return _pngs(images)
    files = [_jpeg.jpeg(np.ascontiguousarray(image).data, *image.shape) for image in images]
    return pa.array(files, pa.large_binary())


def is_lossless(shape: tuple[int, ...]) -> bool:
    """Whether images of shape `(samples, height, width, channels)` are kept to the pixel."""
    return max(shape[1:3]) <= _LOSSLESS_SIDE


def _pngs(images: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    # Laid out by hand for the whole batch, pixels stored and not compressed: 40 times as many images
    # a second as Pillow compresses, for a third more bytes.
    samples, height, width, channels = images.shape
    line = 1 + width * channels  # begins with its filter, 0: none
    size = height * line  # at most 64 * (1 + 64 * 4): it fits the 65,535 bytes of one stored block
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    opening = b"IDAT\x78\x01\x01" + struct.pack("<HH", size, size ^ 0xFFFF)
    before = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + struct.pack(">I", size + 11) + opening
    after = _chunk(b"IEND", b"")
    start, stop = len(before), len(before) + size

    files = np.zeros((samples, stop + 8 + len(after)), np.uint8)
    files[:, :start] = np.frombuffer(before, np.uint8)
    files[:, start:stop].reshape(samples, height, line)[:, :, 1:] = images.reshape(samples, height, line - 1)
    files[:, stop : stop + 4] = _big_endian([zlib.adler32(file[start:stop]) for file in files])
    opened = zlib.crc32(opening)
    files[:, stop + 4 : stop + 8] = _big_endian([zlib.crc32(file[start : stop + 4], opened) for file in files])
    files[:, stop + 8 :] = np.frombuffer(after, np.uint8)
    offsets = np.arange(samples + 1, dtype=np.int64) * files.shape[1]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(files)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), samples, buffers)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def _big_endian(numbers: list[int]) -> npt.NDArray[np.uint8]:
    return np.array(numbers, ">u4").view(np.uint8).reshape(-1, 4)


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
