"""Settings that suit the data: what the recipe for one's own data leaves open is chosen here, by rule."""

import math
from collections.abc import Collection
from typing import Any

import torch

from nonneg.errors import InputError
from nonneg.modalities import Source
from nonneg.training.config import TrainConfig

ADAPTING = frozenset({"images", "pairs", "text"})
"""Recipes whose settings are adapted to the data by `nonneg train`."""

_FEWEST = 4  # samples
_FEWEST_STEPS = 8  # in an epoch
_SMALLEST_BATCH = 16
_LEAST_FEATURES = 512
_SAMPLES_PER_FEATURE = 2
_LEAST_ACTIVE = 8  # samples on which a feature is to be active
_MOST_ACTIVE = 0.1  # share of the samples, so that nine tenths of the entries are zero
# Samples that a network sees in training, all epochs together: 100 epochs of CIFAR on a GPU, minutes on two cores.
_SEEN = {"gpu": 5_000_000, "cpu": 400_000}
_EPOCHS = (10, 100, 800)  # at least; what millions of samples get on a GPU, if that is few enough; at most
_MOST_SEEN = 100_000_000


def adapted(config: TrainConfig, given: Collection[str] = (), progress: bool = True) -> tuple[TrainConfig, str]:
    """Choose the settings that depend on the data: the modality's own, batch, epochs, learning rate, width and share.

    The config's own values are those for 50,000 samples on a GPU. The rules use the number and size of the samples and
    whether there is a GPU, and never labels.

    Args:
        config: the recipe, with the data.
        given: names of settings that must stay as they are.
        progress: show a progress bar if reading takes long.

    Returns:
        The config, and a sentence that says what was chosen.

    Example:
        >>> from nonneg.training import load_recipe
        >>> config, sentence = adapted(load_recipe("images").replace(data="digits", accelerator="cpu"))
        >>> config.encoder, config.batch_size, config.epochs
        ('convnet_8', 128, 286)
    """
    on_gpu = config.accelerator == "cuda" or (config.accelerator == "auto" and torch.cuda.is_available())
    chosen = _without(config.modality.adapted(config.data, on_gpu), given)
    config = config.replace(**chosen)
    source = config.modality.open(config.data, progress=progress)
    if len(source) < _FEWEST:
        notes = f" ({'; '.join(source.notes)})" if source.notes else ""
        found = f"{len(source)} sample{'' if len(source) == 1 else 's'}{notes}"
        raise InputError(f"{config.data} holds {found}, expected at least {_FEWEST}")
    values = _rules(config, len(source), on_gpu, given)
    return config.replace(**values), _sentence(source, config, on_gpu, {**chosen, **values})


def _rules(config: TrainConfig, samples: int, on_gpu: bool, given: Collection[str]) -> dict[str, Any]:
    """Return the settings that depend on the number of samples, except for those given."""
    batch_size = config.batch_size if "batch_size" in given else _batch_size(config.batch_size, samples)
    epochs = config.epochs if "epochs" in given else _epochs(samples, on_gpu)
    features = max(_LEAST_FEATURES, min(config.features, _power_of_two(samples / _SAMPLES_PER_FEATURE)))
    values = {
        "batch_size": batch_size,
        "epochs": epochs,
        "warmup_epochs": epochs // 10,
        "lr": config.lr * _lr_factor(config, batch_size),
        "features": features,
        "share": _share(config, config.features if "features" in given else features, samples),
        "precision": "bf16-mixed" if on_gpu else "32-true",
    }
    return _without(values, given)


def _share(config: TrainConfig, features: int, samples: int) -> float:
    """Return the share of the samples on which a feature is active.

    If there are fewer features, each is active on more samples, so that a sample keeps as many active features as the
    entries that must be zero allow: with few of them, probes and retrieval lose (docs/results/method.md).
    """
    if not config.share:
        return 0.0
    as_many = min(_MOST_ACTIVE, config.share * config.features / features)
    return min(config.first_share or 0.5, max(config.share, as_many, _LEAST_ACTIVE / samples))


def _lr_factor(config: TrainConfig, batch_size: int) -> float:
    """Return by how much to multiply the learning rate for another batch size.

    AdamW divides a gradient by its own size. Where noise dominates gradients, as in small batches, that size falls
    with the square root of the batch, so the learning rate follows the square root, too. The others follow the batch.
    """
    ratio = batch_size / config.batch_size if config.batch_size else 1.0
    return float(ratio**0.5 if config.optimiser == "adamw" else ratio)


def _batch_size(most: int, samples: int) -> int:
    """Return a power of two with several steps per epoch; for very few samples, an even number."""
    if samples < 2 * _SMALLEST_BATCH:
        return samples // 2 * 2 if samples < _SMALLEST_BATCH else _SMALLEST_BATCH
    return max(_SMALLEST_BATCH, min(most, _power_of_two(samples / _FEWEST_STEPS)))


def _epochs(samples: int, on_gpu: bool) -> int:
    """Return how often to go through the data: often for few samples, which the network then sees in many views."""
    least, usual, most = _EPOCHS
    seen = _SEEN["gpu" if on_gpu else "cpu"]
    if on_gpu:
        seen = max(seen, min(usual * samples, _MOST_SEEN))
    return min(most, max(least, round(seen / samples)))


def _power_of_two(value: float) -> int:
    """Return the largest power of two up to a value of at least 1."""
    return int(2 ** math.floor(math.log2(max(1.0, value))))


def _without(values: dict[str, Any], given: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in given}


def _sentence(source: Source, config: TrainConfig, on_gpu: bool, values: dict[str, Any]) -> str:
    shape = tuple(getattr(source.samples, "shape", ()))[1:3]
    size = f" of {' x '.join(map(str, reversed(shape)))}" if shape else ""
    shown = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
        if isinstance(value, int | float | str)
    ]
    where = "a GPU" if on_gpu else "a CPU"
    return f"Chosen for {len(source):,} {config.modality.name}{size} on {where}: {', '.join(shown)}."
