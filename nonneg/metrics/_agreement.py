"""Agreement of two or more sets of features: columns are matched one to one, then compared."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nonneg.metrics._activity import live_features
from nonneg.metrics._codes import check, unit_cosines, unit_pair


@dataclass(frozen=True)
class Match:
    """The best one-to-one match of the live features of `a` to those of `b`.

    Attributes:
        a, b: `(matches,)` feature indices; `a[i]` is matched to `b[i]`.
        cosine: `(matches,)` cosine of the two features' activations over the samples.
    """

    a: Tensor
    b: Tensor
    cosine: Tensor


@dataclass(frozen=True)
class Agreement:
    """How much several runs agree on their features.

    Attributes:
        value: mean over pairs of runs.
        standard_error: jackknife standard error of `value` over runs; NaN for two runs.
        per_pair: (run i, run j) → mean cosine of their matched features; 0 if no feature is live.
        unmatched: (run i, run j) → number of live features of either run without a partner in the other.
        variant: the choices that define the value.
    """

    value: float
    standard_error: float
    per_pair: Mapping[tuple[int, int], float]
    unmatched: Mapping[tuple[int, int], int]
    variant: str

    def __float__(self) -> float:
        return self.value


def match(a: Any, b: Any, signed: bool = True) -> Match:
    """Match the live features of two code matrices one to one so that the summed cosine is largest.

    The Hungarian method finds the match. The cosine of two features is taken over the samples, not centred.

    Args:
        a, b: `(samples, features)` torch, NumPy or SciPy sparse matrices of the same samples in the same order; the
            numbers of features may differ.
        signed: whether to use the cosine itself. If False, use its absolute value, for features whose sign is
            arbitrary.

    Returns:
        The matched features and their cosines.

    Example:
        >>> a = torch.eye(3)
        >>> match(a, a[:, [2, 0, 1]]).b
        tensor([1, 2, 0])
    """
    from scipy.optimize import linear_sum_assignment  # on first use: it takes a while to import

    for z in (a, b):
        check(z, "match")
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"match: a has {a.shape[0]} samples and b {b.shape[0]}, expected equal numbers")
    live_a, live_b = (live_features(z).nonzero().squeeze(1).cpu() for z in (a, b))
    cosine = unit_cosines(*unit_pair(a.T, b.T, "match"))[live_a][:, live_b]
    cosine = cosine if signed else cosine.abs()
    rows, columns = (torch.from_numpy(chosen) for chosen in linear_sum_assignment(cosine.cpu().numpy(), maximize=True))
    return Match(live_a[rows], live_b[columns], cosine[rows, columns])


def agreement(
    codes: Sequence[Any], signed: bool = True, known: Mapping[tuple[int, int], Match] | None = None
) -> Agreement:
    """Return the mean cosine of matched live features over all pairs of runs.

    Args:
        codes: two or more `(samples, features)` matrices of the same samples in the same order, one per run.
        signed: whether to use the cosine itself or its absolute value, as in `match`.
        known: (run i, run j) → `Match` for pairs that have already been matched.

    Returns:
        The mean with its standard error, and the value of each pair.

    Example:
        >>> a = torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
        >>> agreement([a, a[:, [1, 0, 2]]]).value
        1.0
    """
    if len(codes) < 2:
        raise ValueError(f"agreement: codes holds {len(codes)} matrices, expected 2 or more")
    per_pair, unmatched = {}, {}
    live = [int(live_features(z).sum()) for z in codes]
    for i, j in itertools.combinations(range(len(codes)), 2):
        cosine = (known[i, j] if known and (i, j) in known else match(codes[i], codes[j], signed)).cosine
        per_pair[i, j] = float(cosine.mean()) if len(cosine) else 0.0
        unmatched[i, j] = live[i] + live[j] - 2 * len(cosine)
    sign = "signed" if signed else "absolute"
    return Agreement(
        value=math.fsum(per_pair.values()) / len(per_pair),
        standard_error=_jackknife(per_pair, len(codes)),
        per_pair=per_pair,
        unmatched=unmatched,
        variant=f"live features matched one to one (Hungarian), {sign} uncentred cosine over samples, mean of matches",
    )


def _jackknife(per_pair: Mapping[tuple[int, int], float], runs: int) -> float:
    """Return the jackknife error over runs: pairs share runs, so their values are not independent."""
    if runs < 3:
        return float("nan")
    without = [np.mean([value for pair, value in per_pair.items() if run not in pair]) for run in range(runs)]
    return float(np.sqrt((runs - 1) * np.var(without)))
