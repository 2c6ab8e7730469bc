"""One step: two views, features, loss, gradient, update."""

import math
from typing import Any

import torch
from torch import Tensor

from nonneg import losses
from nonneg.training.config import TrainConfig
from nonneg.views import two_views


def contrast(z: Tensor, config: TrainConfig) -> Tensor:
    """The loss of features `(2 * batch, features)`: first views, then second ones."""
    z1, z2 = z.chunk(2)
    if config.loss == "spectral":
        return losses.spectral(z1, z2)
    return losses.info_nce(z1, z2, config.temperature)


def step(
    fabric: Any, model: Any, optimiser: Any, images: Tensor, samples: Tensor, config: TrainConfig, epoch: int
) -> tuple[Tensor, Tensor]:
    """Update the model on these samples.

    Returns:
        The loss and the features, detached and still on the device: nothing waits for them.
    """
    views = two_views(images[samples], samples, config.views, config.seed, epoch)
    z = model(views)
    loss = contrast(z, config)
    optimiser.zero_grad()
    fabric.backward(loss)
    optimiser.step()
    return loss.detach(), z.detach()


def learning_rate(config: TrainConfig, step: int, steps: int, warmup: int) -> float:
    """Linear warm-up to `lr`, then a cosine to 0."""
    if step < warmup:
        return config.lr * (step + 1) / warmup
    return config.lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def epoch_order(samples: int, seed: int, epoch: int) -> Tensor:
    """A permutation of the samples that depends on (seed, epoch) alone."""
    generator = torch.Generator().manual_seed((seed << 20) + epoch)
    return torch.randperm(samples, generator=generator)
