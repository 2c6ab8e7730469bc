"""What ends a run before it is done, said in one sentence."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from nonneg.errors import StoppedError, UntrainableError
from nonneg.training._run import RunFolder
from nonneg.training._together import by_first
from nonneg.training.config import TrainConfig


def check_loss(loss: float, epoch: int, config: TrainConfig, what: str = "loss") -> None:
    """Nothing is learnt from what is not finite."""
    if not math.isfinite(loss):
        raise UntrainableError(
            f"the {what} became {loss} in epoch {epoch + 1}: training diverged at lr {config.lr:g} with"
            f" rectify {config.rectify!r}; lower lr, lengthen warmup_epochs or raise temperature"
        )


def check_weights(parameters: Iterable[Tensor], epoch: int, config: TrainConfig) -> None:
    """Before they are saved: the last update shows in no loss any more. Waits for the device."""
    largest = torch.nn.utils.get_total_norm([p.detach() for p in parameters], math.inf)
    check_loss(float(largest), epoch, config, "largest weight")


def check_features_alive(figures: dict[str, float], epoch: int, config: TrainConfig) -> None:
    """Features that are 0 for everything get no gradient: they stay so."""
    if not figures["live"]:
        raise UntrainableError(
            f"all {config.features} features were 0 for every sample of epoch {epoch + 1}: nothing is left to learn"
            f" with rectify {config.rectify!r} at lr {config.lr:g}; lower lr or set rectify to rep_relu"
        )


def leave_if(told: int | None, run: RunFolder, fabric: Any, done: int, steps: int) -> None:
    """Stop here if a signal said so; all work is on disk then, before any process leaves."""
    if told is None:
        return
    by_first(fabric, run.checkpoints.wait)
    raise StoppedError(
        f"stopped after {done:,} of {steps:,} steps, which {run.folder} holds: train into it again to go on",
        signal=told,
    )
