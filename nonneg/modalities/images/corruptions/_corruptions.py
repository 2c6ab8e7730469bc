"""Corrupted images, to measure how robust features are: fifteen kinds at five severities, on any device."""

import math
import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.modalities._random import uniform
from nonneg.modalities._source import ChangedRows, Source
from nonneg.modalities.images.corruptions import _kinds as kinds
from nonneg.modalities.images.corruptions._jpeg import jpeg

Five = tuple[float, float, float, float, float]
Kind = tuple[Callable[..., Tensor], tuple[tuple[Five, Five], ...]]

SEVERITIES = (1, 2, 3, 4, 5)
"""Severities of a corruption, from weak to strong."""
_SMALL, _LARGE = 32, 224
_VALUES_AT_A_TIME = 2**22  # of the images in a block: as floats, with intermediate results, a few hundred megabytes
_VIEW = 0xC0  # the number of a view that training never draws

# For each parameter of an operation, its values at the five severities, for 32 pixels per side and for 224. They are
# those of CIFAR-10-C and ImageNet-C, except for elastic and for motion_blur, whose trail grows with each severity.
_KINDS: dict[str, Kind] = {
    "gaussian_noise": (kinds.gaussian_noise, (((0.04, 0.06, 0.08, 0.09, 0.1), (0.08, 0.12, 0.18, 0.26, 0.38)),)),
    "shot_noise": (kinds.shot_noise, (((500, 250, 100, 75, 50), (60, 25, 12, 5, 3)),)),
    "impulse_noise": (kinds.impulse_noise, (((0.01, 0.02, 0.03, 0.05, 0.07), (0.03, 0.06, 0.09, 0.17, 0.27)),)),
    "speckle_noise": (kinds.speckle_noise, (((0.06, 0.1, 0.12, 0.16, 0.2), (0.15, 0.2, 0.35, 0.45, 0.6)),)),
    "gaussian_blur": (kinds.gaussian_blur, (((0.4, 0.6, 0.7, 0.8, 1), (1, 2, 3, 4, 6)),)),
    "defocus_blur": (
        kinds.defocus_blur,
        (((0.3, 0.4, 0.5, 1, 1.5), (3, 4, 6, 8, 10)), ((0.4, 0.5, 0.6, 0.2, 0.1), (0.1, 0.5, 0.5, 0.5, 0.5))),
    ),
    "motion_blur": (kinds.motion_blur, (((1, 1.5, 2, 2.25, 2.5), (3, 5, 8, 12, 15)),)),
    "zoom_blur": (kinds.zoom_blur, (((0.05, 0.1, 0.15, 0.2, 0.25), (0.1, 0.15, 0.2, 0.25, 0.3)),)),
    "fog": (
        kinds.fog,
        (((0.2, 0.5, 0.75, 1, 1.5), (1.5, 2, 2.5, 2.5, 3)), ((3, 3, 2.5, 2, 1.75), (2, 2, 1.7, 1.5, 1.4))),
    ),
    "snow": (
        kinds.snow,
        (
            ((0.1, 0.1, 0.15, 0.25, 0.3), (0.1, 0.2, 0.55, 0.55, 0.55)),
            ((0.2, 0.2, 0.3, 0.3, 0.3), (0.3, 0.3, 0.3, 0.3, 0.3)),
            ((1, 1, 1.75, 2.25, 1.25), (3, 2, 4, 4.5, 2.5)),
            ((0.6, 0.5, 0.55, 0.6, 0.65), (0.5, 0.5, 0.9, 0.85, 0.85)),
            ((3, 4, 4, 6, 12), (4, 4, 8, 8, 12)),
            ((0.95, 0.9, 0.9, 0.85, 0.8), (0.8, 0.7, 0.7, 0.65, 0.55)),
        ),
    ),
    "brightness": (kinds.brightness, (((0.05, 0.1, 0.15, 0.2, 0.3), (0.1, 0.2, 0.3, 0.4, 0.5)),)),
    "contrast": (kinds.contrast, (((0.75, 0.5, 0.4, 0.3, 0.15), (0.4, 0.3, 0.2, 0.1, 0.05)),)),
    "elastic": (
        kinds.elastic,
        (((0.5, 0.7, 0.9, 1.2, 1.5), (2, 2.75, 3.5, 4.5, 6)), ((2.5, 2.5, 2.5, 2.5, 2.5), (12, 12, 12, 12, 12))),
    ),
    "pixelate": (kinds.pixelate, (((0.95, 0.9, 0.85, 0.75, 0.65), (0.6, 0.5, 0.4, 0.3, 0.25)),)),
    "jpeg": (jpeg, (((80, 65, 58, 50, 40), (25, 18, 15, 10, 7)),)),
}
KINDS = tuple(_KINDS)
"""Names of corruptions."""


def corrupt(images: Tensor, kind: str, severity: int, seed: int = 0, samples: Tensor | None = None) -> Tensor:
    """Corrupt images on the device they are on.

    A sample's random numbers depend only on (seed, sample, kind): the result does not depend on the batch, and the
    noise of a higher severity is the same noise, amplified.

    Args:
        images: `(batch, height, width, channels)` uint8 of 1 or 3 channels.
        kind: one of `KINDS`.
        severity: 1 to 5. The strengths are those of CIFAR-10-C up to 32 pixels per side, those of ImageNet-C from
            224 pixels on, and interpolated in between.
        seed: of the random numbers, 0 to 2⁶⁴ − 1.
        samples: `(batch,)` int64, the samples' row numbers in the data; 0, 1, … if None.

    Returns:
        Images of the same shape and type.

    Example:
        >>> images = torch.full((2, 8, 8, 1), 100, dtype=torch.uint8)
        >>> corrupt(images, "brightness", 4)[0, 0, 0]
        tensor([151], dtype=torch.uint8)
    """
    check_corruption(kind, severity)
    if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[3] not in (1, 3) or 0 in images.shape[1:]:
        raise InputError(
            f"images are {str(images.dtype).removeprefix('torch.')} of shape {tuple(images.shape)}, expected uint8 of"
            " (batch, height, width, 1 or 3)"
        )
    samples = torch.arange(len(images), device=images.device) if samples is None else samples.to(images.device)
    if samples.shape != images.shape[:1]:
        raise InputError(f"samples have shape {tuple(samples.shape)}, expected ({len(images)},), one number per image")
    most = max(1, _VALUES_AT_A_TIME // math.prod(images.shape[1:]))
    rows = math.ceil(len(images) / max(1, math.ceil(len(images) / most))) or 1  # blocks of about the same size
    out = torch.empty_like(images)
    for start in range(0, len(images), rows):
        part = slice(start, start + rows)
        out[part] = _corrupted(images[part], kind, severity, seed, samples[part])
    return out


def check_corruption(kind: str, severity: int) -> None:
    """Raise an error if the kind or the severity is unknown."""
    if kind not in _KINDS:
        raise InputError(f"kind is {kind!r}, expected one of {', '.join(KINDS)}")
    if severity not in SEVERITIES or isinstance(severity, float):
        raise InputError(f"severity is {severity!r}, expected a whole number from 1 to 5")


def _corrupted(images: Tensor, kind: str, severity: int, seed: int, samples: Tensor) -> Tensor:
    operation, parameters = _KINDS[kind]
    # The name, not the position: adding a kind to the table changes no random number.
    name = zlib.crc32(kind.encode())

    def numbers(n: int) -> Tensor:
        return uniform(n, seed, name, samples, _VIEW)

    x = images.permute(0, 3, 1, 2).float().contiguous() / 255
    strength = [_between(small[severity - 1], large[severity - 1], x.shape[2:]) for small, large in parameters]
    return (operation(x, numbers, *strength).clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1)


def _between(small: float, large: float, sides: tuple[int, ...]) -> float:
    """Return the strength for images of these sides, interpolated on a logarithmic scale."""
    place = math.log(max(sides) / _SMALL) / math.log(_LARGE / _SMALL)
    return float(small * (large / small) ** min(1.0, max(0.0, place)))


def corrupted_source(
    source: Source, kind: str, severity: int, seed: int = 0, device: str | torch.device | None = None
) -> Source:
    """Return a source whose images are corrupted batch by batch when they are read, and not stored.

    It can be embedded like any other source.

    Args:
        source: images as uint8.
        kind, severity, seed: as in `corrupt`; a sample's number is its row.
        device: where to corrupt them; None is a CUDA device if there is one.

    Example:
        >>> from nonneg.modalities.images import open_source
        >>> foggy = corrupted_source(open_source("digits", "test"), "fog", 3)
        >>> foggy.name, foggy.samples[:5].shape
        ('digits/test/fog-3', (5, 8, 8, 1))
    """
    check_corruption(kind, severity)
    place = choose_device(device)

    def change(images: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        there = torch.from_numpy(np.array(images)).to(place)  # a copy: torch requires writable memory
        return corrupt(there, kind, severity, seed, torch.from_numpy(rows).to(place)).cpu().numpy()

    return replace(source, name=f"{source.name}/{kind}-{severity}", samples=ChangedRows(source.samples, change))
