"""The views of `nonneg.modalities.images.views`, one image at a time with Pillow, as a reference.

The operations are Pillow's, called as in torchvision; `parameters` draws with torchvision's algorithm from
Python's generator, independently of `nonneg.modalities.images.views`.
"""

import math
import random
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from nonneg.modalities.images import ViewConfig

JITTERS = ("brightness", "contrast", "saturation", "hue")


@dataclass
class Parameters:
    """The parameters of one view."""

    top: int
    left: int
    height: int
    width: int
    flip: bool
    jitters: list[tuple[str, float]]
    grey: bool
    sigma: float
    solarise: bool


def crop(image: Image.Image, p: Parameters, size: tuple[int, int]) -> Image.Image:
    box = image.crop((p.left, p.top, p.left + p.width, p.top + p.height))
    return box.resize((size[1], size[0]), Image.Resampling.BICUBIC)


def jitter(image: Image.Image, name: str, amount: float) -> Image.Image:
    if name == "hue":
        hue, saturation, value = image.convert("HSV").split()
        turned = (np.asarray(hue).astype(np.int32) + int(amount * 255)) % 256
        return Image.merge("HSV", (Image.fromarray(turned.astype(np.uint8)), saturation, value)).convert("RGB")
    enhance = {
        "brightness": ImageEnhance.Brightness,
        "contrast": ImageEnhance.Contrast,
        "saturation": ImageEnhance.Color,
    }
    return enhance[name](image).enhance(amount)


def view(image: Image.Image, p: Parameters, size: tuple[int, int]) -> Image.Image:
    image = crop(image, p, size)
    for name, amount in p.jitters:
        image = jitter(image, name, amount)
    if p.grey:
        image = image.convert("L").convert("RGB")
    if p.sigma:
        image = image.filter(ImageFilter.GaussianBlur(p.sigma))
    if p.solarise:
        image = ImageOps.solarize(image, 128)
    return ImageOps.mirror(image) if p.flip else image


def parameters(config: ViewConfig, height: int, width: int, rng: random.Random) -> Parameters:
    top, left, h, w = _box(config, height, width, rng)
    jitters = []
    if rng.random() < config.jitter_p:
        for name in rng.sample(JITTERS, 4):
            strength = getattr(config, name)
            if name == "hue":
                jitters.append((name, rng.uniform(-strength, strength)))
            else:
                jitters.append((name, rng.uniform(max(0, 1 - strength), 1 + strength)))
    return Parameters(
        top,
        left,
        h,
        w,
        flip=rng.random() < config.flip_p,
        jitters=jitters,
        grey=rng.random() < config.grey_p,
        sigma=rng.uniform(config.blur_least, config.blur_most) if rng.random() < config.blur_p else 0.0,
        solarise=rng.random() < config.solarise_p,
    )


def _box(config: ViewConfig, height: int, width: int, rng: random.Random) -> tuple[int, int, int, int]:
    extreme = math.log(config.crop_ratio)
    for _ in range(10):
        area = height * width * rng.uniform(config.crop_least, config.crop_most)
        ratio = math.exp(rng.uniform(-extreme, extreme))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return rng.randint(0, height - h), rng.randint(0, width - w), h, w
    w, h = min(width, round(height * config.crop_ratio)), min(height, round(width * config.crop_ratio))
    return (height - h) // 2, (width - w) // 2, h, w
