"""The settings of a fit: their defaults and their limits."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from nonneg.errors import InputError
from nonneg.validation import check_fields

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
        noise: size of the noise added while fitting, relative to the vectors' spread.
        max_iter: number of steps, one batch each.
        batch_size: rows per step.
        learning_rate: learning rate of Adam.
        seed: seed of the initialisation, the order of rows and the noise.

    Example:
        >>> FitConfig(noise=-1)
        Traceback (most recent call last):
        nonneg.errors.InputError: noise is -1, expected at least 0
    """

    n_components: Annotated[int, Field(ge=1, le=2**20)] = 1024
    max_active: Annotated[int, Field(ge=1)] | None = 32
    temperature: Annotated[float, Field(gt=0)] | None = None
    positive_share: Annotated[float, Field(ge=0, le=1)] = 0.3
    noise: Annotated[float, Field(ge=0)] = 0.7
    max_iter: Annotated[int, Field(ge=1)] = 1200
    batch_size: Annotated[int, Field(ge=2)] = 512
    learning_rate: Annotated[float, Field(gt=0)] = 0.005
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class HeadConfig:
    """Parameters of `NonNegativeClassifier` that have limits."""

    C: Annotated[float, Field(gt=0)]
    max_iter: Annotated[int, Field(ge=1)]

    def __post_init__(self) -> None:
        check_fields(self)


def checked_config(parameters: Mapping[str, Any], seed: int = 0) -> FitConfig:
    """The config of a fit with an estimator's parameters, once they have been checked."""
    random_state = parameters.get("random_state")
    if isinstance(random_state, Integral) and not 0 <= int(random_state) <= _LARGEST_SEED:
        raise InputError(f"random_state is {random_state}, expected 0 to {_LARGEST_SEED}")
    names = [field.name for field in fields(FitConfig) if field.name != "seed"]
    return FitConfig(**{name: plain(parameters[name]) for name in names}, seed=seed)


def plain(value: Any) -> Any:
    """A parameter as a Python number, if it is a NumPy number."""
    return value.item() if isinstance(value, np.generic) else value
