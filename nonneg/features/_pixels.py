"""Images stored as plain pixels, encoded as PNG files when somebody looks at them."""

import io
from typing import Any

import numpy as np

from nonneg.errors import InputError
from nonneg.extras import needs_extra
from nonneg.features._checks import freeze
from nonneg.payload import Array


def checked_pixels(pixels: Any, samples: int) -> Array:
    """Return a read-only view of one uint8 image `(height, width, channels)` per sample."""
    array: Array = np.asarray(pixels).view()
    if array.dtype != np.uint8 or array.shape[:1] != (samples,) or not is_image_batch(array):
        raise InputError(
            f"pixels are {array.dtype} of shape {array.shape}, expected uint8 of shape"
            f" ({samples}, height, width, 1 to 4 channels)"
        )
    freeze(array)
    return array


def is_image_batch(array: Array) -> bool:
    """Whether the shape is `(samples, height, width, channels)` with 1 (grey), 2, 3 (RGB) or 4 channels (RGBA)."""
    return array.ndim == 4 and 0 not in array.shape and array.shape[3] <= 4


def encode_png(image: Array) -> bytes:
    """Encode a uint8 image `(height, width, channels)`: grey, grey and opacity, RGB or RGBA.

    Example:
        >>> encode_png(np.zeros((2, 2, 3), np.uint8))[:4]
        b'\\x89PNG'
    """
    with needs_extra("images", "an image"):
        from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, "PNG", compress_level=1)
    return file.getvalue()
