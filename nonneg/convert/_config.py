"""The settings of a fit: their defaults and their limits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import inf
from numbers import Integral, Real
from typing import Any

from nonneg.errors import InputError

_MOST_COMPONENTS = 2**20  # as many as `nonneg train` allows
_LARGEST_SEED = 2**32 - 1  # the largest that NumPy allows


@dataclass(frozen=True)
class FitConfig:
    """How a head is fitted: parameters of `NonNegativeEmbedding` with their defaults.

    The estimators take their defaults from here, and the command line from the signature of `NonNegativeEmbedding`.

    Attributes:
        n_components: number of features.
        max_active: maximum number of active features per sample; None for no limit.
        temperature: temperature of the vectors' similarities; None chooses it from the data.
        positive_share: weight of the known positives in a sample's neighbourhood, from 0 to 1.
        noise: size of the noise that codes must be robust to, relative to the vectors' spread.
        max_iter: number of steps, one batch each.
        batch_size: rows per step.
        learning_rate: learning rate of Adam.
        seed: seed of the initialisation, the order of rows and the noise.
    """

    n_components: int = 1024
    max_active: int | None = 32
    temperature: float | None = None
    positive_share: float = 0.3
    noise: float = 0.7
    max_iter: int = 1200
    batch_size: int = 512
    learning_rate: float = 0.005
    seed: int = 0


# Per parameter its type, its limits and their description; a parameter whose description ends in None may be None.
_RULES: dict[str, tuple[type, Callable[[Any], bool], str]] = {
    "n_components": (
        Integral,
        lambda value: 1 <= value <= _MOST_COMPONENTS,
        f"a whole number from 1 to {_MOST_COMPONENTS:,}",
    ),
    "max_active": (Integral, lambda value: value >= 1, "a whole number, at least 1, or None"),
    "temperature": (Real, lambda value: 0 < value < inf, "a number above 0, or None"),
    "positive_share": (Real, lambda value: 0 <= value <= 1, "a number from 0 to 1"),
    "noise": (Real, lambda value: 0 <= value < inf, "a number, at least 0"),
    "max_iter": (Integral, lambda value: value >= 1, "a whole number, at least 1"),
    "batch_size": (Integral, lambda value: value >= 2, "a whole number, at least 2"),
    "learning_rate": (Real, lambda value: 0 < value < inf, "a number above 0"),
    "C": (Real, lambda value: 0 < value < inf, "a number above 0"),
}


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Check the type and the limits of each parameter that has some.

    Raises:
        InputError: naming the parameter, its value and what was expected.

    Example:
        >>> check_parameters({"noise": -1})
        Traceback (most recent call last):
        nonneg.errors.InputError: noise is -1, expected a number, at least 0
    """
    for name, (kind, is_allowed, expected) in _RULES.items():
        value = parameters.get(name)
        if name not in parameters or (value is None and expected.endswith("None")):
            continue
        if not isinstance(value, kind) or isinstance(value, bool) or not is_allowed(value):
            raise InputError(f"{name} is {value!r}, expected {expected}")
    seed = parameters.get("random_state")
    if isinstance(seed, Integral) and not 0 <= int(seed) <= _LARGEST_SEED:
        raise InputError(f"random_state is {seed}, expected 0 to {_LARGEST_SEED}")


def checked_config(parameters: Mapping[str, Any], seed: int = 0) -> FitConfig:
    """The config of a fit with an estimator's parameters, once they have been checked."""
    check_parameters(parameters)
    names = [field.name for field in fields(FitConfig) if field.name != "seed"]
    return FitConfig(**{name: parameters[name] for name in names}, seed=seed)
