"""What the estimators take, checked in one sentence each."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import torch

from nonneg.convert._fit import FitConfig
from nonneg.errors import InputError

_MOST_COMPONENTS = 2**20  # as many as `nonneg train` takes
_LARGEST_SEED = 2**32 - 1  # NumPy takes no larger one


def checked_config(parameters: Mapping[str, Any], seed: int) -> FitConfig:
    """The parameters of a fit."""
    for name in ("n_components", "max_iter", "batch_size"):
        least = 2 if name == "batch_size" else 1
        _require(parameters, name, Integral, f"a whole number, at least {least}", lambda v, least=least: v >= least)
    _require(parameters, "n_components", Integral, f"at most {_MOST_COMPONENTS:,}", lambda v: v <= _MOST_COMPONENTS)
    if parameters["max_active"] is not None:
        _require(parameters, "max_active", Integral, "a whole number, at least 1, or None", lambda v: v >= 1)
    if parameters["temperature"] is not None:
        _require(parameters, "temperature", Real, "a number above 0, or None", lambda v: 0 < v < float("inf"))
    _require(parameters, "positive_share", Real, "a number from 0 to 1", lambda v: 0 <= v <= 1)
    _require(parameters, "noise", Real, "a number, at least 0", lambda v: 0 <= v < float("inf"))
    _require(parameters, "learning_rate", Real, "a number above 0", lambda v: 0 < v < float("inf"))
    if isinstance(parameters.get("random_state"), Integral):  # a generator or None will do, too
        _require(parameters, "random_state", Integral, f"0 to {_LARGEST_SEED}", lambda v: 0 <= v <= _LARGEST_SEED)
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


@contextmanager
def memory_errors_as_input_errors(config: FitConfig) -> Iterator[None]:
    """Turns a lack of memory during a fit into one sentence."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        is_lack = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
        if not is_lack:
            raise
        raise InputError(
            f"n_components is {config.n_components:,} and batch_size {config.batch_size:,}, for which memory does not"
            " suffice, expected less of one or both"
        ) from error
