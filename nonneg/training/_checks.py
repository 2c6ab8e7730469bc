"""Errors that end a run early, each reported in one sentence."""

import math

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from nonneg.errors import StoppedError, UntrainableError
from nonneg.processes import on_first_process
from nonneg.rectify import NonNegative, Standardise
from nonneg.training._run import RunFolder
from nonneg.training.config import TrainConfig


def check_finite(value: float, epoch: int, config: TrainConfig, name: str = "loss") -> None:
    """Raise an error if training has diverged."""
    if not math.isfinite(value):
        raise UntrainableError(
            f"the {name} became {value} in epoch {epoch + 1}: training diverged at lr {config.lr:g} with"
            f" rectify {config.rectify!r}; lower lr, lengthen warmup_epochs or raise temperature"
        )


def check_weights(network: nn.Module, epoch: int, config: TrainConfig) -> None:
    """Check weights and statistics before they are saved: no later loss would show that the last update diverged.

    Waits for the device.
    """
    # Other buffers are constants, such as a mask of -inf.
    kept = [part for part in network.modules() if isinstance(part, _BatchNorm | NonNegative | Standardise)]
    statistics = [tensor for part in kept for tensor in part.buffers(recurse=False) if tensor.is_floating_point()]
    numbers = [tensor.detach() for tensor in (*network.parameters(), *statistics) if tensor.numel()]
    largest = nn.utils.get_total_norm(numbers, math.inf)
    check_finite(float(largest), epoch, config, "largest weight")


def check_features_alive(figures: dict[str, float], epoch: int, config: TrainConfig) -> None:
    """Raise an error if every feature is 0 for every sample: such features get no gradient and never recover."""
    if not figures["live"]:
        raise UntrainableError(
            f"all {config.features} features were 0 for every sample of epoch {epoch + 1} with rectify"
            f" {config.rectify!r} at lr {config.lr:g}; lower lr or set rectify to rep_relu"
        )


def stop_if(received: int | None, run: RunFolder, done: int, steps: int) -> None:
    """Stop the run if a signal was received, once the checkpoint is on disk and before any process exits."""
    if received is not None:
        on_first_process(run.checkpoints.wait)
        raise StoppedError(
            f"stopped after {done:,} of {steps:,} steps, saved in {run.folder}; train into it again to resume",
            signal=received,
        )
