"""SEPIN@k: the information that one feature alone carries, by what InfoNCE loses without it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.metrics._activity import expected_activation
from nonneg.metrics._codes import check, on_gpu
from nonneg.metrics._leave_one_out import losses_without


@dataclass(frozen=True)
class Sepin:
    """SEPIN with its error bars.

    Attributes:
        at: k → mean of Δ over the k best features; None stands for all of them.
        standard_error: k → standard error of that mean over anchors.
        per_feature: `(features,)` Δ_i, the loss without feature i less the loss with it.
        variant: every choice that changes the figure.
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
    ranking: Literal["information", "expected_activation"] = "information",
    scale: float = 1.0,
    negatives: int | None = None,
) -> Sepin:
    """Δ_i = L(z without feature i) − L(z), averaged over the k best features (after Do & Tran, 2020).

    L is InfoNCE in one direction: each row of `z1`, scaled to length 1, is to find its own row of `z2` among
    all of them, or among as many as `negatives` says, by cosine / temperature. Exact: what naive recomputation
    gives, to 1e-6. Memory: `(samples, features)` in float64 and blocks of at most 256 MiB a thread.

    Args:
        z1, z2: `(samples, features)`, two views of the same samples: torch, NumPy or SciPy sparse.
        k: numbers of features to average over, None for all; more than there are means all.
        temperature: of InfoNCE.
        renormalise: whether rows are scaled to length 1 again without the feature; changes the figure
            several-fold. A row with less than 1e-5 of its length left is empty: its similarities are 0.
        ranking: best by Δ ("information"), or by the mean over samples of z/‖z‖, both views ("expected_activation").
        scale: factor on all figures; 100 in some tables.
        negatives: of each row; None for all others. Samples are taken in groups of so many and one more, in order
            (shuffle those that come class by class); a last, smaller group is left out.

    Example:
        >>> import torch
        >>> z = torch.eye(4)
        >>> round(sepin(z, z, k=[1]).at[1], 4)
        0.3416
    """
    for z in (z1, z2):
        check(z, "sepin")
    if z1.shape != z2.shape:
        raise ValueError(f"sepin: z1 has shape {tuple(z1.shape)} and z2 {tuple(z2.shape)}, expected the same")
    samples, features = z1.shape
    if samples < 2:
        raise ValueError("sepin: 1 sample is given, expected 2 or more, of which the others are negatives")
    if not (temperature > 0 and math.isfinite(temperature)):
        raise ValueError(f"sepin: temperature is {temperature}, expected a number above 0")
    if any(n is not None and n < 1 for n in k):
        raise ValueError(f"sepin: k is {tuple(k)}, expected numbers from 1 on, or None for all features")
    if ranking not in ("information", "expected_activation"):
        raise ValueError(f"sepin: ranking is {ranking!r}, expected 'information' or 'expected_activation'")
    if on_gpu(z1) != on_gpu(z2):
        raise ValueError("sepin: one of z1 and z2 is on a GPU, expected both or neither")
    if negatives is not None and not 1 <= negatives < samples:
        raise ValueError(f"sepin: negatives is {negatives}, expected 1 to {samples - 1}, the samples less one")
    group = samples if negatives is None else negatives + 1
    starts = range(0, samples - group + 1, group)
    first, second = (z.tocsr() if sp.issparse(z) else z for z in (z1, z2))
    groups = ((first[start : start + group], second[start : start + group]) for start in starts)
    gains = torch.cat([losses_without(*views, temperature, renormalise) for views in groups]) * scale
    per_feature = gains.mean(0)
    by = per_feature if ranking == "information" else expected_activation(z1) + expected_activation(z2)
    order = by.argsort(descending=True, stable=True)
    # Per anchor the mean over chosen features: its spread over anchors is what the figure's error comes from.
    averaged = {n: gains[:, order[:n]].mean(1) for n in k}
    rows = "renormalised" if renormalise else "not renormalised"
    return Sepin(
        at={n: float(value.mean()) for n, value in averaged.items()},
        standard_error={n: float(value.std()) / math.sqrt(len(value)) for n, value in averaged.items()},
        per_feature=per_feature,
        variant=f"InfoNCE from z1 to z2, {group - 1} negatives, {features} features, temperature {temperature:g}, "
        f"rows {rows} without the feature, ranked by {ranking.replace('_', ' ')}, scale {scale:g}",
    )
