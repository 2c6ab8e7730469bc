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


def check_labels(loss: str, labels: Tensor | None, z: Tensor) -> None:
    """One integer label a row."""
    if labels is None:
        raise TypeError(f"{loss}: labels are missing; it needs one integer label a row")
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.is_complex():
        found = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
        raise TypeError(f"{loss}: labels are {found}, expected a tensor of integers")
    if labels.shape != (len(z),):
        raise ValueError(f"{loss}: labels have shape {tuple(labels.shape)}, expected ({len(z)},), one a row")
    if labels.device != z.device:
        raise ValueError(f"{loss}: z is on {z.device} and labels on {labels.device}, expected the same")


def checked_temperature(loss: str, temperature: float | Tensor, z: Tensor) -> Tensor:
    """A positive number or a single-element tensor (learnable; its value is not looked at), as a scalar beside `z`."""
    if isinstance(temperature, Tensor):
        if temperature.numel() != 1:
            raise ValueError(f"{loss}: temperature has shape {tuple(temperature.shape)}, expected a single number")
        return temperature.reshape(()).to(z.device, working_dtype(z))
    if not isinstance(temperature, int | float) or not temperature > 0:
        raise ValueError(f"{loss}: temperature is {temperature!r}, expected a number above 0")
    return torch.full((), temperature, dtype=working_dtype(z), device=z.device)


def check_enough(loss: str, count: int, unit: str) -> None:
    """Alone, a pair or a row has no negatives."""
    if count < 2:
        raise ValueError(f"{loss}: the batch has {count} {unit}, expected at least 2: one alone has no negatives")


def working_dtype(z: Tensor) -> torch.dtype:
    """Similarities over a temperature need more than half precision has: they are taken in float32 at least."""
    return torch.promote_types(z.dtype, torch.float32)
