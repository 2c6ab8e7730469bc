"""One measured number with its error bar."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nonneg.evaluate._statistics import bootstrap_interval

Array = npt.NDArray[np.float64]
PERCENT, DECIMALS, COUNT = "{:.1%}", "{:.3f}", "{:.0f}"


@dataclass(frozen=True)
class Figure:
    """One number.

    Attributes:
        key: its name in JSON.
        layer: "encoder" or "projector".
        title: its name in a table.
        value: the number.
        form: the format string that prints it.
        samples: the value of each test sample if the number is their mean; for intervals and paired differences.
        interval: 95% confidence interval over samples, or None.
        variant: how it was computed, if there are several ways.
    """

    key: str
    layer: str
    title: str
    value: float
    form: str = PERCENT
    samples: Array | None = None
    interval: tuple[float, float] | None = None
    variant: str = ""


def mean_figure(key: str, layer: str, title: str, samples: Any, variant: str = "") -> Figure:
    """Return the mean of `(samples,)` values, with its bootstrap interval; values that are NaN are left out."""
    values = np.asarray(samples.cpu() if isinstance(samples, torch.Tensor) else samples, np.float64)
    mean = float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
    return Figure(key, layer, title, mean, PERCENT, values, bootstrap_interval(values), variant)
