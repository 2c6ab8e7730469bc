"""Argument checks. They read shapes and dtypes only, never values, so they do not synchronise with the device."""

import math

import torch
import torch.distributed as dist
from torch import Tensor


def check_features(loss: str, **features: Tensor) -> None:
    """Check that the arguments are two-dimensional floating-point tensors of one shape, dtype and device."""
    (first_name, first), *others = features.items()
    for name, z in features.items():
        if not isinstance(z, Tensor):
            raise TypeError(f"{loss}: {name} is a {type(z).__name__}, expected a torch tensor")
        if not z.is_floating_point():
            raise TypeError(f"{loss}: {name} has dtype {z.dtype}, expected a floating-point dtype")
        if z.dim() != 2 or 0 in z.shape:
            raise ValueError(f"{loss}: {name} has shape {tuple(z.shape)}, expected a non-empty (rows, features)")
    for name, z in others:
        if z.shape != first.shape:
            raise ValueError(
                f"{loss}: {first_name} has shape {tuple(first.shape)} and {name} {tuple(z.shape)},"
                " expected the same shape"
            )
        if z.dtype != first.dtype or z.device != first.device:
            raise ValueError(
                f"{loss}: {first_name} is {first.dtype} on {first.device} and {name} {z.dtype} on {z.device},"
                " expected the same dtype and device"
            )


def checked_batch(
    loss: str,
    group: dist.ProcessGroup | None,
    unit: str = "pair",
    least: int = 2,
    reason: str = "a single one has no negatives",
    **features: Tensor,
) -> tuple[int, int, int]:
    """Check the features as `check_features` does, and the number of rows of all processes together.

    Returns:
        This process's rank, the number of processes, and the number of rows of this process.
    """
    check_features(loss, **features)
    rank, processes = (0, 1) if group is None else (group.rank(), group.size())
    rows = len(next(iter(features.values())))
    if rows * processes < least:
        raise ValueError(f"{loss}: the batch has {rows * processes} {unit}, expected at least {least}: {reason}")
    return rank, processes, rows


def check_same_width(loss: str, z: Tensor, **others: Tensor) -> None:
    """Check that other matrices have as many features as `z` and are on its device."""
    for name, other in others.items():
        check_features(loss, **{name: other})
        check_same_device(loss, z, **{name: other})
        if other.shape[1] != z.shape[1]:
            raise ValueError(f"{loss}: {name} has {other.shape[1]} columns, expected {z.shape[1]}, one per feature")


def check_same_device(loss: str, z: Tensor, **others: Tensor) -> None:
    """Check that other tensors are on the device of the features."""
    for name, other in others.items():
        if other.device != z.device:
            raise ValueError(f"{loss}: {name} is on {other.device} and z on {z.device}, expected the same device")


def check_labels(loss: str, labels: Tensor | None, z: Tensor, name: str = "labels") -> None:
    """Check that there is one integer label per row."""
    if labels is None:
        raise TypeError(f"{loss}: {name} is None, expected one integer per row")
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.is_complex():
        found = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
        raise TypeError(f"{loss}: {name} is {found}, expected an integer tensor")
    if labels.shape != (len(z),):
        raise ValueError(f"{loss}: {name} has shape {tuple(labels.shape)}, expected ({len(z)},), one integer per row")
    check_same_device(loss, z, **{name: labels})


def checked_related(loss: str, related: Tensor | None, z: Tensor) -> Tensor | None:
    """Return one integer per row, or None if none are given, in a dtype that processes can exchange."""
    if related is None:
        return None
    check_labels(loss, related, z, "related")
    return related.long()


def check_weights(loss: str, **weights: float) -> None:
    """Check that the weights of a loss's terms are finite and not negative."""
    for name, weight in weights.items():
        if not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise ValueError(f"{loss}: {name} is {weight!r}, expected a finite number of at least 0")


def checked_temperature(loss: str, temperature: float | Tensor, z: Tensor) -> Tensor:
    """Return the temperature as a scalar tensor beside `z`. A tensor (learnable) is not checked for its value."""
    if isinstance(temperature, Tensor):
        if temperature.numel() != 1:
            raise ValueError(f"{loss}: temperature has shape {tuple(temperature.shape)}, expected a single number")
        return temperature.reshape(()).to(z.device, working_dtype(z))
    if not isinstance(temperature, int | float) or not temperature > 0:
        raise ValueError(f"{loss}: temperature is {temperature!r}, expected a number above 0")
    return torch.full((), temperature, dtype=working_dtype(z), device=z.device)


def working_dtype(z: Tensor) -> torch.dtype:
    """Return the dtype that a loss computes in: float32 or better, as dividing by a temperature amplifies errors."""
    return torch.promote_types(z.dtype, torch.float32)
