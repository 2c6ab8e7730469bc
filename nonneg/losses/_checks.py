"""Refusals by name. They look at shapes and dtypes only, never at values: no wait for the device."""

import torch
from torch import Tensor


def check_features(loss: str, **features: Tensor) -> None:
    """Two-dimensional floating tensors of one shape, dtype and device."""
    (first_name, first), *others = features.items()
    for name, z in features.items():
        if not isinstance(z, Tensor):
            raise TypeError(f"{loss}: {name} is a {type(z).__name__}, expected a torch tensor")
        if not z.is_floating_point():
            raise TypeError(f"{loss}: {name} has dtype {z.dtype}, expected a floating type")
        if z.dim() != 2 or 0 in z.shape:
            raise ValueError(f"{loss}: {name} has shape {tuple(z.shape)}, expected (rows, features), neither of them 0")
    for name, z in others:
        if z.shape != first.shape:
            raise ValueError(
                f"{loss}: {first_name} has shape {tuple(first.shape)} and {name} {tuple(z.shape)}, expected the same"
            )
        if z.dtype != first.dtype or z.device != first.device:
            raise ValueError(
                f"{loss}: {first_name} is {first.dtype} on {first.device} and {name} {z.dtype} on {z.device},"
                " expected the same"
            )


def check_labels(loss: str, labels: Tensor | None, rows: int) -> None:
    """One integer label a row."""
    if labels is None:
        raise TypeError(f"{loss}: labels are missing; it needs one integer label a row")
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.is_complex():
        found = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
        raise TypeError(f"{loss}: labels are {found}, expected a tensor of integers")
    if labels.shape != (rows,):
        raise ValueError(f"{loss}: labels have shape {tuple(labels.shape)}, expected ({rows},), one a row")


def check_temperature(loss: str, temperature: float | Tensor) -> None:
    """A positive number, or a scalar tensor (learnable), whose value is not looked at."""
    if isinstance(temperature, Tensor):
        if temperature.numel() != 1:
            raise ValueError(f"{loss}: temperature has shape {tuple(temperature.shape)}, expected a single number")
    elif not temperature > 0:
        raise ValueError(f"{loss}: temperature is {temperature}, expected a number above 0")


def check_enough(loss: str, pairs: int) -> None:
    """A single pair has no negatives."""
    if pairs < 2:
        raise ValueError(f"{loss}: the batch has {pairs} pair, expected at least 2: one pair has no negatives")


def working_dtype(z: Tensor) -> torch.dtype:
    """Similarities over a temperature need more than half precision has: they are taken in float32 at least."""
    return torch.promote_types(z.dtype, torch.float32)
