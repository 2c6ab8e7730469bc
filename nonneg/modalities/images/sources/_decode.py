"""Decoding one image of any format to 8-bit RGB as a person would see it."""

import errno
import functools
import io
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from nonneg.errors import InputError
from nonneg.extras import needs_extra
from nonneg.messages import one_line
from nonneg.modalities.images.sources._collection import MOST_BYTES, BrokenImageError, ListedFile, Pixels, too_long

with needs_extra("images", "an image"):
    from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

# Only image formats: Pillow would also pass PostScript to an interpreter.
_FORMATS = ("JPEG", "MPO", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "JPEG2000", "AVIF")
_MOST_PIXELS = 50_000_000  # of a single image given by a person
_MEGAPIXELS = 128
_FREE, _IN_TURN = threading.Semaphore(_MEGAPIXELS), threading.Lock()
_ORIENTATION = ExifTags.Base.Orientation
_BITS, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339  # tags of TIFF
_WHITE_IS_ZERO, _UNSIGNED = 0, (1,)
_GREY_STEPS = {"L;2": 85, "L;4": 17}  # steps between grey values of 2 and 4 bits
_WHITES = (1.0, 255.0, 65535.0)
_OVERSHOOT = 1.5  # bicubic and Lanczos resampling exceed white by up to a third at sharp edges
_ABSENT = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ELOOP, errno.EISDIR, errno.ENOTDIR}


def decode(encoded: Any, image_size: int) -> Pixels:
    """Decode an image to `(height, width, 3)` uint8.

    Transparency becomes white, 16-bit and float values are scaled, EXIF rotation is applied, and only the first frame
    of an animation is used. Colour profiles are ignored.

    Args:
        encoded: the bytes of an image file, a listed file, a Pillow image, or the error of reading it.
        image_size: 0 to keep the size; otherwise the shorter side is resized to it (bicubic) and the centre cut out.

    Raises:
        BrokenImageError: the image cannot be decoded.
        MemoryError: there is too little memory now.
        InputError: the file has changed, or its disk or network fails; the image may be intact.
    """
    if isinstance(encoded, BrokenImageError):
        raise encoded
    if isinstance(encoded, ListedFile):
        encoded = _bytes_of(encoded)
    try:
        image = encoded if isinstance(encoded, Image.Image) else _opened(encoded)
        if image_size and image.format == "JPEG":
            # libjpeg decodes at a half, a quarter or an eighth of the size in a fraction of the time; at twice the
            # final size or more, the difference is smaller than the loss of JPEG itself.
            image.draft(None, (2 * image_size, 2 * image_size))
        with _room_for(image.width * image.height):
            image.load()
            image = _rgb(_upright(image))
            return np.asarray(_resized(image, image_size) if image_size else image)
    except (BrokenImageError, MemoryError):
        raise
    except UnidentifiedImageError:
        raise BrokenImageError("not an image") from None
    except Image.DecompressionBombError:
        raise BrokenImageError(f"more than {Image.MAX_IMAGE_PIXELS or 0:,} pixels") from None
    except Exception as error:  # Pillow raises nearly anything on damaged files
        if "out of memory" in str(error):  # decoders written in C raise an OSError
            raise MemoryError from error
        raise BrokenImageError(one_line(error)) from None


@contextmanager
def _room_for(pixels: int) -> Iterator[None]:
    """Wait until the images that all threads decode have at most `_MEGAPIXELS` together, however many cores there are.

    Decoding and converting takes 4 to 16 bytes per pixel, and up to 48 for floats.
    """
    share = min(_MEGAPIXELS, 1 + (pixels >> 20))
    with _IN_TURN:  # otherwise two threads could each wait for what the other has taken
        for _ in range(share):
            _FREE.acquire()
    try:
        yield
    finally:
        _FREE.release(share)


def decode_given(content: bytes, image_size: int) -> Pixels:
    """Decode an image given by a person; a broken one is an `InputError`."""
    try:
        with Image.open(io.BytesIO(content), formats=formats()) as image:
            width, height = image.size
        if width * height > _MOST_PIXELS:
            raise BrokenImageError(f"{width} x {height} pixels, expected at most {_MOST_PIXELS:,} in all")
        return decode(content, image_size)
    except UnidentifiedImageError as error:
        raise InputError("the image cannot be decoded: its format is unknown") from error
    except Exception as error:  # Pillow raises nearly anything on damaged files
        raise InputError(f"the image cannot be decoded: {one_line(error)}") from error


@functools.cache
def formats() -> tuple[str, ...]:
    """Return the formats that this build of Pillow can read."""
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _bytes_of(file: ListedFile) -> bytes:
    try:
        found = os.stat(file.path)  # noqa: PTH116 (a million times)
        _check_unchanged(file, found)
        if not stat.S_ISREG(found.st_mode):  # opening a pipe would block
            raise BrokenImageError("not a regular file")
        if found.st_size > MOST_BYTES:
            raise too_long(found.st_size)
        with open(file.path, "rb") as stream:  # noqa: PTH123
            content = stream.read()
            _check_unchanged(file, os.fstat(stream.fileno()))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno not in _ABSENT:
            # A failing disk or network may work again tomorrow: the image may be intact.
            raise InputError(f"{file.path} cannot be read: {reason}") from error
        if file.readable:  # perhaps being moved or restored; the cache would record it as broken forever
            raise InputError(f"{file.path} changed while it was read: {reason}") from error
        raise BrokenImageError(reason) from None
    return content


def _check_unchanged(file: ListedFile, found: os.stat_result) -> None:
    if (found.st_size, found.st_mtime_ns) != (file.bytes, file.modified):
        raise InputError(f"{file.path} changed while the data was read; try again")


def size_of(encoded: Any) -> tuple[int, int] | None:
    """Return an image's width and height from its header; None for a broken image."""
    try:
        content = _bytes_of(encoded) if isinstance(encoded, ListedFile) else encoded
        return (content if isinstance(content, Image.Image) else _opened(content)).size
    except InputError:
        raise
    except Exception:  # Pillow raises nearly anything on damaged files
        return None


def _opened(encoded: Any) -> Image.Image:
    if not isinstance(encoded, bytes):
        raise BrokenImageError("no image stored" if encoded is None else f"a {type(encoded).__name__}, not an image")
    if not encoded:
        raise BrokenImageError("empty")
    if len(encoded) > MOST_BYTES:
        raise too_long(len(encoded))
    image = Image.open(io.BytesIO(encoded), formats=formats())
    if Image.MAX_IMAGE_PIXELS and image.width * image.height > Image.MAX_IMAGE_PIXELS:
        raise Image.DecompressionBombError
    _scale_transparent_colour(image)
    return image


def _scale_transparent_colour(image: ImageFile.ImageFile) -> None:
    """Correct a PNG's transparent colour: Pillow scales the pixels to 8 bits, but not this colour."""
    if image.format != "PNG" or "transparency" not in image.info or not image.tile:
        return
    stored_as = str(image.tile[0][3])
    if stored_as == "RGB;16B":
        raise BrokenImageError("16-bit colours with a transparent one, of which only 8 bits can be read")
    if stored_as in _GREY_STEPS:
        image.info["transparency"] *= _GREY_STEPS[stored_as]


def _upright(image: Image.Image) -> Image.Image:
    try:
        return image if image.getexif().get(_ORIENTATION, 1) == 1 else ImageOps.exif_transpose(image)
    except MemoryError:
        raise
    except Exception:  # the EXIF data is damaged, but the pixels are loaded
        return image


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode[0] in "IF":
        return Image.fromarray(_eight_bits(image)).convert("RGB")
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        if image.mode in ("RGBa", "La"):
            image = image.convert(image.mode.upper())
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> Pixels:
    """Scale integer and float modes to 8 bits; Pillow would clip them at 255 and turn 16-bit images white."""
    values = np.asarray(image)
    shown: Pixels
    tags: Mapping[int, Any] = getattr(image, "tag_v2", {})  # of a TIFF
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
        white = 2 ** tags.get(_BITS, (16,))[0] - 1
        shown = ((values.astype(np.uint32).clip(0, white) * 255 + white // 2) // white).astype(np.uint8)
    else:
        if image.mode == "I" and tags and tags.get(_SAMPLE_FORMAT, _UNSIGNED) == _UNSIGNED:
            values = values.astype(np.uint32)  # Pillow treats them as signed
        shown = _scaled(values.astype(np.float64), _WHITES if image.mode == "F" else _WHITES[1:])
    if tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO:  # with 8 bits or fewer, Pillow inverts it itself
        shown = 255 - shown
    if "transparency" in image.info:
        shown[values == image.info["transparency"]] = 255
    return shown


def _scaled(values: npt.NDArray[np.float64], whites: tuple[float, ...]) -> Pixels:
    """Scale values whose format does not define white, by the smallest usual range that holds nearly all values."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    black = 0.0
    if low < -high / 4 or high > _OVERSHOOT * whites[-1]:
        black, white = low, (high - low) or 1.0
    else:
        white = next(white for white in whites if high <= _OVERSHOOT * white)
    scaled = np.nan_to_num((values - black) * (255 / white))  # infinities become the largest finite numbers
    return np.asarray(np.rint(scaled.clip(0, 255)), dtype=np.uint8)


def _resized(image: Image.Image, size: int) -> Image.Image:
    """Resize the shorter side to `size` and cut out the centre, in one step.

    Only the part that is kept is computed: resizing the whole of a 1 x 10,000 image would fill the memory.
    """
    width, height = image.size
    shorter = min(width, height)
    whole = (max(size, round(width * size / shorter)), max(size, round(height * size / shorter)))
    left, top = ((side - size) // 2 for side in whole)
    across, down = width / whole[0], height / whole[1]
    box = (left * across, top * down, min(width, (left + size) * across), min(height, (top + size) * down))
    return image.resize((size, size), Image.Resampling.BICUBIC, box=box)
