"""The loss of JPEG compression on any device: a cosine transform per block, quantised as the quality asks."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.modalities.images.corruptions._kinds import Numbers
from nonneg.modalities.images.views import grey

# The example quantisation tables of the standard (annex K), which encoders scale by their quality.
_LUMA_STEPS = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
_COLOUR_STEPS = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *(((99,) * 8,) * 4),
)
_BLUE, _RED = 1.772, 1.402  # largest distances of blue and red from luma


def jpeg(x: Tensor, numbers: Numbers, quality: float) -> Tensor:
    """Return images after JPEG compression of this quality, 1 to 100, with colours at half the resolution.

    Args:
        x: `(batch, channels, height, width)` floats from 0 to 1; grey images have no colours to lose.
        numbers: not used, because JPEG is not random.
        quality: as in JPEG encoders.

    Example:
        >>> flat = torch.full((1, 3, 8, 8), 0.5)
        >>> float((jpeg(flat, lambda n: torch.empty(1, n), 10) - flat).abs().max()) < 0.01
        True
    """
    # Unlike in decoders, the inverse cosine transform is not rounded.
    height, width = x.shape[2:]
    padded = F.pad(x, (0, -width % 16, 0, -height % 16), mode="replicate")
    bright = (255 * grey(padded)).round() - 128
    light = (_quantised(bright, _LUMA_STEPS, quality) + 128).clamp(0, 255)
    if x.shape[1] == 1:
        return (light / 255)[:, :, :height, :width]
    colours = 255 * (padded[:, [2, 0]] - grey(padded))
    colours = torch.cat((colours[:, :1] / _BLUE, colours[:, 1:] / _RED), 1)
    halved = _quantised(F.avg_pool2d(colours, 2).round(), _COLOUR_STEPS, quality)
    blue, red = F.interpolate(halved, scale_factor=2, mode="bilinear", align_corners=False).split(1, 1)
    red, blue = light + _RED * red, light + _BLUE * blue
    green = (light - 0.299 * red - 0.114 * blue) / 0.587
    return (torch.cat((red, green, blue), 1) / 255)[:, :, :height, :width]


def _quantised(planes: Tensor, steps: tuple[tuple[int, ...], ...], quality: float) -> Tensor:
    """Round the cosine transform of each 8×8 block to multiples of the quantisation steps."""
    batch, channels, height, width = planes.shape
    scale = 5000 / quality if quality < 50 else 200 - 2 * quality
    step = ((torch.tensor(steps, device=planes.device) * scale + 50) / 100).floor().clamp(1, 255)
    cosines = _cosines(planes)
    blocks = planes.view(batch, channels, height // 8, 8, width // 8, 8).transpose(3, 4)
    spectrum = (cosines @ blocks @ cosines.T / step).round() * step
    return (cosines.T @ spectrum @ cosines).transpose(3, 4).reshape(planes.shape)


def _cosines(like: Tensor) -> Tensor:
    """Return the orthogonal cosine transform of eight values, `(8, 8)`."""
    ticks = torch.arange(8, device=like.device, dtype=like.dtype)
    waves = torch.cos(math.pi / 8 * ticks[:, None] * (ticks + 0.5)) / 2
    return torch.cat((waves[:1] / math.sqrt(2), waves[1:]))
