"""What the estimators take, checked in one sentence each."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import torch

from nonneg.convert._fit import FitConfig
from nonneg.errors import InputError


def checked_config(parameters: Mapping[str, Any], seed: int) -> FitConfig:
    """The parameters of a fit."""
    for name in ("n_components", "max_iter", "batch_size"):
        least = 2 if name == "batch_size" else 1
        _require(parameters, name, Integral, f"a whole number, at least {least}", lambda v, least=least: v >= least)
    if parameters["max_active"] is not None:
        _require(parameters, "max_active", Integral, "a whole number, at least 1, or None", lambda v: v >= 1)
    if parameters["temperature"] is not None:
        _require(parameters, "temperature", Real, "a number above 0, or None", lambda v: 0 < v < float("inf"))
    _require(parameters, "positive_share", Real, "a number from 0 to 1", lambda v: 0 <= v <= 1)
    _require(parameters, "noise", Real, "a number, at least 0", lambda v: 0 <= v < float("inf"))
    _require(parameters, "learning_rate", Real, "a number above 0", lambda v: 0 < v < float("inf"))
    names = ("n_components", "max_active", "temperature", "positive_share", "noise", "max_iter", "batch_size")
    return FitConfig(**{name: parameters[name] for name in (*names, "learning_rate")}, seed=seed)


def _require(parameters: Mapping[str, Any], name: str, kind: type, expected: str, holds: Any) -> None:
    value = parameters[name]
    if not isinstance(value, kind) or isinstance(value, bool) or not holds(value):
        raise InputError(f"{name} is {value!r}, expected {expected}")


def device_of(name: str) -> torch.device:
    """Where to compute."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:  # torch asserts that it was built with CUDA
        raise InputError(f"device is {name!r}, which cannot be used: {' '.join(str(error).split())}") from error
    return device
