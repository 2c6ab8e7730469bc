"""Random views of the samples of a batch, drawn on the device with parameters of their own."""

import torch
from torch import Tensor

from nonneg.modalities.images.views import _ops
from nonneg.modalities.images.views._config import ViewConfig
from nonneg.modalities.images.views._draw import Drawn, draw


def random_views(
    images: Tensor, samples: Tensor, config: ViewConfig, seed: int, epoch: Tensor | int, views: int = 2
) -> Tensor:
    """First views of all samples, then second ones.

    Args:
        images: `(batch, channels, height, width)`, uint8 or float in 0 to 1.
            Of float64 the views are made in float64, of all else in float32.
        samples: `(batch,)` int64, the samples' numbers in the data: with seed and epoch they
            determine the views, whatever the batch.
        config: how far a view may differ.
        seed, epoch: of the run; epoch may be a tensor on the device, so that a compiled or recorded
            step need not be made anew for each.
        views: how many of each sample.

    Returns:
        `(views * batch, channels, height, width)` in 0 to 1, of the side `config.size` if that is set.

    Example:
        >>> images = torch.rand(3, 3, 8, 8)
        >>> random_views(images, torch.arange(3), ViewConfig(flip_p=0.5), seed=0, epoch=0).shape
        torch.Size([6, 3, 8, 8])
    """
    number = torch.arange(views, device=samples.device).repeat_interleave(len(samples))
    drawn = draw(config, samples.repeat(views), number, seed, epoch, images.shape[1:], _working(images))
    return make_views(images.repeat(views, 1, 1, 1), drawn, config)


def make_views(images: Tensor, drawn: Drawn, config: ViewConfig) -> Tensor:
    """One view of each image, made with these parameters.

    Args:
        images: `(views, channels, height, width)`, uint8 or float in 0 to 1.
        drawn: the parameters, by `draw`.
        config: decides which operations there are at all.

    Returns:
        Floats in 0 to 1, of the side `config.size` if that is set.
    """
    x = images.to(_working(images))
    x = x / 255 if images.dtype == torch.uint8 else x
    height, width = config.size or x.shape[2], config.size or x.shape[3]
    colours = x.shape[1] == 3
    jitters = tuple(
        name
        for name in ("brightness", "contrast", "saturation", "hue")
        if getattr(config, name) and config.jitter_p and (colours or name in ("brightness", "contrast"))
    )
    if config.crops or (height, width) != x.shape[2:]:
        x = _ops.crop_and_flip(x, drawn, height, width)
    elif config.flip_p:
        x = _ops.flip(x, drawn.flip)
    if config.rotate or config.scale or config.shift or config.shear:
        x = _ops.affine(x, drawn)
    if jitters:
        x = _ops.jitter(x, drawn, jitters)
    if config.grey_p and colours:
        x = torch.where(drawn.grey[:, None, None, None], _ops.grey(x), x)
    if config.blur_p:
        x = _ops.blur(x, drawn.sigma, config.blur_most)
    if config.solarise_p:
        x = _ops.solarise(x, drawn.solarised)
    if drawn.noise is not None:
        x = x + config.noise * torch.special.ndtri(drawn.noise).view(x.shape)
    return x.clamp(0, 1).contiguous()  # products leave rows before channels


def _working(images: Tensor) -> torch.dtype:
    return torch.float64 if images.dtype == torch.float64 else torch.float32
