"""How far a view may differ from its sample."""

import math
from dataclasses import dataclass, fields

from nonneg.errors import InputError


@dataclass(frozen=True)
class ViewConfig:
    """How views are drawn, in this order: crop, mirror, affine map, colours, grey, blur, solarise, noise.

    Left as it is, nothing changes. Crop, colours, grey, blur and solarise do what torchvision's and
    Pillow's do, with the same distributions.
    """

    size: int = 0
    """Side of a view in pixels; 0 keeps the image's height and width."""
    crop_least: float = 1.0
    """Random resized crop: least share of the image's area."""
    crop_most: float = 1.0
    """Random resized crop: largest share of the area. 1 and 1 is no crop."""
    crop_ratio: float = 4 / 3
    """Random resized crop: width over height is between 1 / crop_ratio and crop_ratio."""
    flip_p: float = 0.0
    """Probability of a mirror image."""

    jitter_p: float = 1.0
    """Probability that the colours are changed: the next four, in random order."""
    brightness: float = 0.0
    """Brightness times 1 − brightness to 1 + brightness."""
    contrast: float = 0.0
    """Contrast times 1 − contrast to 1 + contrast, about the mean grey."""
    saturation: float = 0.0
    """Saturation times 1 − saturation to 1 + saturation."""
    hue: float = 0.0
    """Hue turned by up to this share of the colour circle either way."""
    grey_p: float = 0.0
    """Probability of a grey view."""
    blur_p: float = 0.0
    """Probability of a Gaussian blur."""
    blur_least: float = 0.1
    """Smallest standard deviation of the blur, in pixels."""
    blur_most: float = 2.0
    """Largest standard deviation of the blur."""
    solarise_p: float = 0.0
    """Probability that all values above one half are inverted."""

    rotate: float = 0.0
    """Rotation by up to so many degrees either way."""
    scale: float = 0.0
    """Size times 1 − scale to 1 + scale."""
    shift: float = 0.0
    """Shift by up to this share of the side, in each direction."""
    shear: float = 0.0
    """Shear by up to so many degrees either way."""
    noise: float = 0.0
    """Standard deviation of the noise on each pixel, where black is 0 and white is 1."""

    @property
    def crops(self) -> bool:
        """Whether anything but the whole image is taken."""
        return self.crop_least < 1 or self.crop_most < 1


def check_views(config: ViewConfig) -> None:
    """Refuse by name what cannot be drawn."""
    for field in fields(config):
        value = getattr(config, field.name)
        if not math.isfinite(value):
            raise InputError(f"views.{field.name} is {value}, expected a finite number")
        if value < 0:
            raise InputError(f"views.{field.name} is {value}, expected at least 0")
        if field.name.endswith("_p") and value > 1:
            raise InputError(f"views.{field.name} is {value}, expected a probability")
    for name, most in {"hue": 0.5, "crop_most": 1.0, "size": 2**13, "blur_most": 100.0}.items():
        if getattr(config, name) > most:
            raise InputError(f"views.{name} is {getattr(config, name)}, expected at most {most:g}")
    if config.scale >= 1:
        raise InputError(f"views.scale is {config.scale}, expected less than 1")
    if not 0 < config.crop_least <= config.crop_most:
        raise InputError(f"views.crop_least is {config.crop_least}, expected more than 0, at most crop_most")
    if config.crop_ratio < 1:
        raise InputError(f"views.crop_ratio is {config.crop_ratio}, expected at least 1")
    if config.blur_least > config.blur_most:
        raise InputError(f"views.blur_least is {config.blur_least}, expected at most blur_most, {config.blur_most}")
