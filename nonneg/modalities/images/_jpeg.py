"""A JPEG thumbnail; as a program, of images that come in on standard input.

Pillow encodes JPEG under Python's lock, so that threads do not share the work: processes do. The
program imports nothing but Pillow, to start at once.
"""

import io
import signal
import struct
import sys

from PIL import Image

LARGEST_SIDE = 128
REQUEST = struct.Struct("<4I")  # samples, height, width, channels; the pixels follow
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def jpeg(pixels: bytes | memoryview, height: int, width: int, channels: int) -> bytes:
    """A JPEG of at most 128 pixels a side, of `(height, width, channels)` uint8."""
    mode = _MODES[channels]
    picture = Image.frombuffer(mode, (width, height), pixels, "raw", mode, 0, 1)  # type: ignore[arg-type]
    if mode not in ("L", "RGB"):
        picture = picture.convert("RGB")
    picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    picture.save(buffer, "jpeg", quality=85)
    return buffer.getvalue()


def main() -> None:
    """Answer requests with the sizes of the files, 4 bytes each, and the files, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started this, and closes the input
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while len(request := source.read(REQUEST.size)) == REQUEST.size:
        samples, height, width, channels = REQUEST.unpack(request)
        size = height * width * channels
        pixels = memoryview(source.read(samples * size))
        files = [jpeg(pixels[i * size : (i + 1) * size], height, width, channels) for i in range(samples)]
        target.write(struct.pack(f"<{samples}I", *map(len, files)) + b"".join(files))
        target.flush()


if __name__ == "__main__":
    main()
