"""Random views of a batch of images, drawn on the device."""

import torch
from torch import Tensor

from nonneg.modalities.images.views import _ops
from nonneg.modalities.images.views._config import ViewConfig
from nonneg.modalities.images.views._draw import Drawn, draw


def random_views(
    images: Tensor, samples: Tensor, config: ViewConfig, seed: int, epoch: Tensor | int, views: int = 2
) -> Tensor:
    """Draw the first views of all samples, then the second ones, and so on.

    Args:
        images: `(batch, channels, height, width)`, uint8 or floats from 0 to 1. Views of float64 images are computed
            in float64, all others in float32.
        samples: `(batch,)` int64, the samples' row numbers in the data: with seed and epoch they determine the views,
            whatever the batch.
        config: how far a view may differ from its image.
        seed: the seed of the run.
        epoch: the epoch; may be a tensor on the device, so that a compiled step works for all epochs.
        views: number of views per sample.

    Returns:
        `(views * batch, channels, height, width)` from 0 to 1, with sides of `config.size` pixels if that is set.

    Example:
        >>> images = torch.rand(3, 3, 8, 8)
        >>> random_views(images, torch.arange(3), ViewConfig(flip_p=0.5), seed=0, epoch=0).shape
        torch.Size([6, 3, 8, 8])
    """
    number = torch.arange(views, device=samples.device).repeat_interleave(len(samples))
    drawn = draw(config, samples.repeat(views), number, seed, epoch, images.shape[1:], _dtype(images))
    return make_views(images.repeat(views, 1, 1, 1), drawn, config)


def make_views(images: Tensor, drawn: Drawn, config: ViewConfig) -> Tensor:
    """Make one view of each image with these parameters.

    Args:
        images: `(views, channels, height, width)`, uint8 or floats from 0 to 1.
        drawn: the parameters, from `draw`.
        config: decides which operations are applied.

    Returns:
        Floats from 0 to 1, with sides of `config.size` pixels if that is set.
    """
    x = images.to(_dtype(images))
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
    return x.clamp(0, 1).contiguous()  # the matrix products leave rows before channels in memory


def _dtype(images: Tensor) -> torch.dtype:
    return torch.float64 if images.dtype == torch.float64 else torch.float32
