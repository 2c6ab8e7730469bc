"""How long a run will take, estimated before its first step."""

import copy
import time

import torch
from torch import nn

from nonneg.modalities import encoded_whole
from nonneg.training._feed import Batch
from nonneg.training._step import Layers, Step

_FEW = 16  # samples that are tried first: with a large network on a CPU, a whole batch would take long
_SOON = 0.2  # seconds
# Time of a step compared with the plain forward and backward pass that is measured, and seconds for compiling.
_PATHS = {"off": (1.1, 0.0), "forward": (0.9, 40.0), "graph": (0.7, 60.0), "record": (0.9, 1.0)}
_TWICE = 4 / 3  # the work of a step in which the encoder's forward pass runs twice
_UNITS = (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0))


def estimated_seconds(step: Step, batch: Batch, steps: int, path: str) -> float | None:
    """Return about how many seconds so many steps take; None if it cannot be told.

    The forward and backward pass run twice on a copy of the network, so that nothing that training depends on changes.
    """
    if step.group is not None and any(isinstance(layer, nn.SyncBatchNorm) for layer in step.model.modules()):
        return None  # it would wait for the other processes
    config, all_samples = step.config, len(batch.samples)
    size = min(all_samples, config.encode_rows) if config.encode_rows else all_samples // config.accumulate
    size = max(2, size)
    alone = copy.copy(step)
    alone.group = None  # the other processes do not take part
    try:
        layers = Layers(copy.deepcopy(step.model, {id(step.group): None}), step.config).train()
        # The search for the fastest convolutions would take longer than the steps that are measured.
        with torch.random.fork_rng(), torch.backends.cudnn.flags(enabled=True, benchmark=False):
            at_once = encoded_whole(batch.content) or step.fabric.device.type == "cuda"
            few = size if at_once else min(size, _FEW)
            _seconds(alone, layers, batch, few)  # loads kernels
            taken = _seconds(alone, layers, batch, few) * size / few
            if few < size and taken < _SOON * size / few:
                taken = min(_seconds(alone, layers, batch, size) for _ in range(2))
    except Exception:  # a module of the caller that cannot be copied, or too little memory for the copy
        return None
    finally:
        if step.fabric.device.type == "cuda":
            torch.cuda.empty_cache()
    factor, compiling = _PATHS[path]
    again = _TWICE if config.encode_rows else 1.0
    return factor * again * taken * all_samples / size * steps + compiling


def _seconds(step: Step, layers: Layers, batch: Batch, size: int) -> float:
    part = batch.part(slice(size))
    start = time.perf_counter()
    step.forward(layers, part).loss.backward()
    if step.fabric.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def in_words(seconds: float) -> str:
    """Return a duration with one or two digits.

    Example:
        >>> in_words(100), in_words(8000), in_words(0.3)
        ('100 seconds', '2.2 hours', '1 second')
    """
    name, length = next((unit for unit in _UNITS if seconds >= 2 * unit[1]), _UNITS[-1])
    count = max(1.0, seconds / length)
    number = f"{count:.2g}" if count < 10 and name != "second" else f"{count:.0f}"
    return f"{number} {name}{'' if number == '1' else 's'}"
