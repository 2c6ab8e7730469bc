"""Two random views of each sample of a batch, drawn on the device with parameters of its own."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.views._random import uniform

# Uniform numbers a view takes before its pixel noise: rotate, scale, shift x and y, shear, brightness, contrast.
_PARAMETERS = 7


@dataclass(frozen=True)
class ViewConfig:
    """How far a view may differ from its sample; 0 leaves a property alone."""

    rotate: float = 15.0
    """Rotation by up to so many degrees either way."""
    scale: float = 0.2
    """Size times 1 − scale to 1 + scale."""
    shift: float = 0.1
    """Shift by up to this share of the side, in each direction."""
    shear: float = 10.0
    """Shear by up to so many degrees either way."""
    brightness: float = 0.3
    """Brightness times 1 − brightness to 1 + brightness."""
    contrast: float = 0.0
    """Contrast times 1 − contrast to 1 + contrast, about the view's mean."""
    noise: float = 0.1
    """Standard deviation of the noise on each pixel, where black is 0 and white is 1."""


def two_views(images: Tensor, samples: Tensor, config: ViewConfig, seed: int, epoch: int) -> Tensor:
    """First views of all samples, then second ones.

    Args:
        images: `(batch, channels, height, width)`, uint8 or float in 0 to 1.
        samples: `(batch,)` int64, the samples' numbers in the data: with seed and epoch they
            determine the views, whatever the batch.

    Returns:
        `(2 * batch, channels, height, width)` float32 in 0 to 1.
    """
    floats = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return torch.cat([_view(floats, samples, config, seed, epoch, number) for number in (0, 1)])


def _view(images: Tensor, samples: Tensor, config: ViewConfig, seed: int, epoch: int, number: int) -> Tensor:
    pixels = images.shape[1:].numel() if config.noise else 0
    drawn = uniform(_PARAMETERS + pixels, seed, epoch, samples, number)
    # Columns to numbers in −1 to 1, shaped to multiply a batch of images.
    rotate, scale, shift_x, shift_y, shear, brightness, contrast = (
        2 * drawn[:, i].view(-1, 1, 1, 1) - 1 for i in range(_PARAMETERS)
    )
    x = images
    if config.rotate or config.scale or config.shift or config.shear:
        x = _affine(
            x,
            angle=rotate * math.radians(config.rotate),
            size=1 + scale * config.scale,
            shift_x=shift_x * config.shift,
            shift_y=shift_y * config.shift,
            shear=shear * math.radians(config.shear),
        )
    if config.contrast:
        mean = x.mean((1, 2, 3), keepdim=True)
        x = mean + (x - mean) * (1 + contrast * config.contrast)
    if config.brightness:
        x = x * (1 + brightness * config.brightness)
    if config.noise:
        x = x + config.noise * torch.special.ndtri(drawn[:, _PARAMETERS:]).view(x.shape)
    return x.clamp(0, 1)


def _affine(x: Tensor, angle: Tensor, size: Tensor, shift_x: Tensor, shift_y: Tensor, shear: Tensor) -> Tensor:
    """Shear, rotate and scale about the centre, then shift by a share of the side; edges are repeated."""
    height, width = x.shape[-2:]
    cos, sin, slant = angle.cos() / size, angle.sin() / size, shear.tan()
    # affine_grid wants the map from output to input positions, the inverse of what is drawn, in units of
    # half a side: so a shift by a whole side is 2, and a turn of an oblong image needs its aspect.
    xx, xy = cos, (sin + cos * slant) * (height / width)
    yx, yy = -sin * (width / height), cos - sin * slant
    tx, ty = 2 * shift_x, 2 * shift_y
    top = torch.cat((xx, xy, -xx * tx - xy * ty), dim=-1)
    bottom = torch.cat((yx, yy, -yx * tx - yy * ty), dim=-1)
    grid = F.affine_grid(torch.cat((top, bottom), dim=2).squeeze(1), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)
