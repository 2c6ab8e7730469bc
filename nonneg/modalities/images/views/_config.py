"""How far a view may differ from its sample."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from nonneg.errors import InputError
from nonneg.validation import check_fields

Strength = Annotated[float, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class ViewConfig:
    """How views are drawn, in this order: crop, flip, affine map, colours, grey, blur, solarise, noise.

    The defaults change nothing. Crop, colours, grey, blur and solarise follow torchvision and Pillow, with the same
    distributions.
    """

    size: Annotated[int, Field(ge=0, le=2**13)] = 0
    """Height and width of a view in pixels; 0 keeps those of the image."""
    crop_least: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Random resized crop: smallest share of the image's area."""
    crop_most: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Random resized crop: largest share of the area. With 1 and 1 there is no crop."""
    crop_ratio: Annotated[float, Field(ge=1)] = 4 / 3
    """Random resized crop: width over height lies between 1 / crop_ratio and crop_ratio."""
    flip_p: Probability = 0.0
    """Probability of a horizontal flip."""

    jitter_p: Probability = 1.0
    """Probability that the colours are changed: the next four settings, in random order."""
    brightness: Strength = 0.0
    """Brightness is multiplied by 1 − brightness to 1 + brightness."""
    contrast: Strength = 0.0
    """Contrast about the mean grey is multiplied by 1 − contrast to 1 + contrast."""
    saturation: Strength = 0.0
    """Saturation is multiplied by 1 − saturation to 1 + saturation."""
    hue: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    """The hue is shifted by up to this share of the colour circle either way."""
    grey_p: Probability = 0.0
    """Probability of a grey view."""
    blur_p: Probability = 0.0
    """Probability of a Gaussian blur."""
    blur_least: Strength = 0.1
    """Smallest standard deviation of the blur, in pixels."""
    blur_most: Annotated[float, Field(ge=0, le=100)] = 2.0
    """Largest standard deviation of the blur."""
    solarise_p: Probability = 0.0
    """Probability that all values above one half are inverted."""

    rotate: Strength = 0.0
    """Rotation by up to this many degrees either way."""
    scale: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The size is multiplied by 1 − scale to 1 + scale."""
    shift: Strength = 0.0
    """Shift by up to this share of the side, in each direction."""
    shear: Strength = 0.0
    """Shear by up to this many degrees either way."""
    noise: Strength = 0.0
    """Standard deviation of the noise added to each pixel, where black is 0 and white is 1."""

    def __post_init__(self) -> None:
        check_fields(self, "views.")
        for low, high in (("crop_least", "crop_most"), ("blur_least", "blur_most")):
            if getattr(self, low) > getattr(self, high):
                found = f"views.{low} is {getattr(self, low)}"
                raise InputError(f"{found}, expected at most views.{high}, {getattr(self, high)}")

    @property
    def crops(self) -> bool:
        """Whether anything but the whole image is taken."""
        return self.crop_least < 1 or self.crop_most < 1
