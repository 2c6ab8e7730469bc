"""SEPIN@k: the information that a single feature carries, measured by the increase of InfoNCE without it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.metrics._activity import expected_activation
from nonneg.metrics._codes import check, on_gpu, require
from nonneg.metrics._leave_one_out import losses_without

Ranking = Literal["information", "expected_activation"]


@dataclass(frozen=True)
class Sepin:
    """SEPIN with standard errors.

    Attributes:
        at: k → mean of Δ over the k best features; the key None stands for all features.
        standard_error: k → standard error of that mean over anchors.
        per_feature: `(features,)` Δ_i, the loss without feature i less the loss with it.
        variant: the choices that define the value.
    """

    at: Mapping[int | None, float]
    standard_error: Mapping[int | None, float]
    per_feature: Tensor
    variant: str


def sepin(
    z1: Any,
    z2: Any,
    k: Sequence[int | None] = (1, 10, 100, None),
    temperature: float = 0.2,
    renormalise: bool = True,
    ranking: Ranking = "information",
    scale: float = 1.0,
    negatives: int | None = None,
) -> Sepin:
    """Return SEPIN@k (after Do & Tran, 2020): Δ_i = L(z without feature i) − L(z), averaged over the k best features.

    L is InfoNCE in one direction: each row of `z1`, scaled to length 1, must identify its own row of `z2` among all
    rows of `z2` (or fewer, see `negatives`) by cosine / temperature. The result equals naive recomputation to 1e-6.
    Memory is `(samples, features)` in float64 plus blocks of at most 256 MiB per thread.

    Args:
        z1, z2: `(samples, features)` torch, NumPy or SciPy sparse matrices: two views of the same samples.
        k: numbers of features to average over, None for all; numbers above the number of features mean all.
        temperature: the temperature of InfoNCE.
        renormalise: whether rows are scaled to length 1 again without the feature, which changes the result
            several-fold. A row with less than 1e-5 of its length left counts as empty: its similarities are 0.
        ranking: the best features have the largest Δ ("information"), or the largest mean of z/‖z‖ over the samples
            of both views ("expected_activation").
        scale: a factor on all results; some papers use 100.
        negatives: the number of negatives per row; None for all other rows. Samples are divided in order into groups
            of `negatives` + 1, and a smaller last group is left out. Shuffle samples that are sorted by class.

    Returns:
        The mean for each k with its standard error, and Δ of each feature.

    Example:
        >>> import torch
        >>> z = torch.eye(4)
        >>> round(sepin(z, z, k=[1]).at[1], 4)
        0.3416
    """
    _check_arguments(z1, z2, k, temperature, ranking, negatives)
    samples, features = z1.shape
    group = samples if negatives is None else negatives + 1
    starts = range(0, samples - group + 1, group)
    first, second = (z.tocsr() if sp.issparse(z) else z for z in (z1, z2))
    groups = ((first[start : start + group], second[start : start + group]) for start in starts)
    gains = torch.cat([losses_without(*views, temperature, renormalise) for views in groups]) * scale
    per_feature = gains.mean(0)
    importance = per_feature if ranking == "information" else expected_activation(z1) + expected_activation(z2)
    order = importance.argsort(descending=True, stable=True)
    # The mean over the chosen features per anchor: its spread over anchors gives the standard error.
    averaged = {n: gains[:, order[:n]].mean(1) for n in k}
    rows = "renormalised" if renormalise else "not renormalised"
    return Sepin(
        at={n: float(value.mean()) for n, value in averaged.items()},
        standard_error={n: float(value.std()) / math.sqrt(len(value)) for n, value in averaged.items()},
        per_feature=per_feature,
        variant=f"InfoNCE from z1 to z2, {group - 1} negatives, {features} features, temperature {temperature:g}, "
        f"rows {rows} without the feature, ranked by {ranking.replace('_', ' ')}, scale {scale:g}",
    )


def _check_arguments(
    z1: Any, z2: Any, k: Sequence[int | None], temperature: float, ranking: str, negatives: int | None
) -> None:
    for z in (z1, z2):
        check(z, "sepin")
    samples, shapes = z1.shape[0], f"z1 has shape {tuple(z1.shape)} and z2 {tuple(z2.shape)}"
    require(
        "sepin",
        (z1.shape == z2.shape, f"{shapes}, expected equal shapes"),
        (samples > 1, f"z1 has {samples} sample, expected 2 or more: a single one has no negatives"),
        (temperature > 0 and math.isfinite(temperature), f"temperature is {temperature}, expected a number above 0"),
        (all(n is None or n >= 1 for n in k), f"k is {tuple(k)}, expected numbers of at least 1, or None for all"),
        (ranking in get_args(Ranking), f"ranking is {ranking!r}, expected one of {', '.join(get_args(Ranking))}"),
        (on_gpu(z1) == on_gpu(z2), "only one of z1 and z2 is on a GPU, expected both or neither"),
        (
            negatives is None or 1 <= negatives < samples,
            f"negatives is {negatives}, expected 1 to {samples - 1} for {samples} samples",
        ),
    )
