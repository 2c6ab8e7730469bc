"""The random parameters of views, drawn for each sample from torchvision's distributions."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nonneg.modalities._random import uniform
from nonneg.modalities.images.views._config import ViewConfig

_ATTEMPTS = 10  # torchvision tries this many random crops before it takes the centre of the image

# Every parameter has its own columns of a view's random numbers: enabling one operation changes no other.
_COLUMNS = (
    ("area", _ATTEMPTS),
    ("ratio", _ATTEMPTS),
    ("top", 1),
    ("left", 1),
    ("flip", 1),
    ("jittered", 1),
    ("order", 4),
    ("brightness", 1),
    ("contrast", 1),
    ("saturation", 1),
    ("hue", 1),
    ("grey", 1),
    ("blurred", 1),
    ("sigma", 1),
    ("solarised", 1),
    ("rotate", 1),
    ("scale", 1),
    ("shift_x", 1),
    ("shift_y", 1),
    ("shear", 1),
)
NUMBERS = sum(width for _, width in _COLUMNS)


@dataclass(frozen=True)
class Drawn:
    """Parameters of a batch of views, `(views,)` each unless another shape is given.

    Attributes:
        top, left, height, width: the crop, in pixels of the image.
        flip, grey, solarised: whether the operation is applied.
        rank: `(views, 4)`, the positions of brightness, contrast, saturation and hue in the order, 0 to 3.
        brightness, contrast, saturation: factors; 1 changes nothing.
        hue: shift as a share of the colour circle; 0 changes nothing.
        sigma: standard deviation of the blur in pixels; 0 changes nothing.
        angle, size, shift_x, shift_y, shear: the affine map, in radians and shares of a side.
        noise: `(views, pixels)` uniform numbers, or None.
    """

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor
    flip: Tensor
    rank: Tensor
    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    hue: Tensor
    grey: Tensor
    sigma: Tensor
    solarised: Tensor
    angle: Tensor
    size: Tensor
    shift_x: Tensor
    shift_y: Tensor
    shear: Tensor
    noise: Tensor | None


def draw(
    config: ViewConfig,
    samples: Tensor,
    view: Tensor | int,
    seed: int,
    epoch: Tensor | int,
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
) -> Drawn:
    """Draw the parameters of one view of each of these samples.

    Args:
        config: how far a view may differ from its image.
        samples: `(views,)` int64 sample numbers.
        view: the number of the view, or `(views,)` numbers.
        seed, epoch: of the run; epoch may be a tensor on the device.
        shape: channels, height and width of the images.
        dtype: of the parameters; the underlying random numbers are the same.
    """
    channels, height, width = shape
    pixels = channels * (config.size or height) * (config.size or width) if config.noise else 0
    numbers = uniform(NUMBERS + pixels, seed, epoch, samples, view).to(dtype)
    names, widths = zip(*_COLUMNS, strict=True)
    columns = dict(zip(names, numbers[:, :NUMBERS].split(widths, 1), strict=True))
    u = {name: column.squeeze(1) for name, column in columns.items()}
    top, left, crop_height, crop_width = _crop(config, u, height, width)
    jittered = u["jittered"] < config.jitter_p

    def factor(name: str, strength: float) -> Tensor:
        least, most = max(0.0, 1 - strength), 1 + strength
        return torch.where(jittered, least + (most - least) * u[name], 1.0)

    def symmetric(name: str, most: float) -> Tensor:
        drawn: Tensor = most * (2 * u[name] - 1)
        return drawn

    sigma = config.blur_least + (config.blur_most - config.blur_least) * u["sigma"]
    order = columns["order"]
    return Drawn(
        top=top,
        left=left,
        height=crop_height,
        width=crop_width,
        flip=u["flip"] < config.flip_p,
        rank=(order[:, :, None] > order[:, None, :]).sum(2),
        brightness=factor("brightness", config.brightness),
        contrast=factor("contrast", config.contrast),
        saturation=factor("saturation", config.saturation),
        hue=torch.where(jittered, symmetric("hue", config.hue), 0.0),
        grey=u["grey"] < config.grey_p,
        sigma=torch.where(u["blurred"] < config.blur_p, sigma, 0.0),
        solarised=u["solarised"] < config.solarise_p,
        angle=symmetric("rotate", math.radians(config.rotate)),
        size=1 + symmetric("scale", config.scale),
        shift_x=symmetric("shift_x", config.shift),
        shift_y=symmetric("shift_y", config.shift),
        shear=symmetric("shear", math.radians(config.shear)),
        noise=numbers[:, NUMBERS:] if pixels else None,
    )


def _crop(config: ViewConfig, u: dict[str, Tensor], height: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the first of ten random boxes that fits into the image, or the centre of the image if none does."""
    if not config.crops:
        whole = torch.zeros_like(u["top"])
        return whole, whole, whole + height, whole + width
    area = height * width * (config.crop_least + (config.crop_most - config.crop_least) * u["area"])
    extreme = math.log(config.crop_ratio)
    ratio = torch.exp(extreme * (2 * u["ratio"] - 1))
    # torch rounds half to even, as Python does.
    widths, heights = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
    fits = (widths >= 1) & (widths <= width) & (heights >= 1) & (heights <= height)
    first = (fits.cumsum(1) == 1) & fits
    found = first.any(1)
    # The centre, as large as the most extreme allowed ratio permits.
    centre_width = min(width, round(height * config.crop_ratio))
    centre_height = min(height, round(width * config.crop_ratio))
    crop_width = torch.where(found, (widths * first).sum(1), centre_width)
    crop_height = torch.where(found, (heights * first).sum(1), centre_height)
    top = torch.where(found, (u["top"] * (height - crop_height + 1)).floor(), (height - centre_height) // 2)
    left = torch.where(found, (u["left"] * (width - crop_width + 1)).floor(), (width - centre_width) // 2)
    return top, left, crop_height, crop_width
