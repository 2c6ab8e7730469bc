"""Mutual information gap: does one feature hold a factor of the data, or is it spread over several?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from nonneg.codes import active
from nonneg.metrics._codes import as_dense, as_labels, check, require

# Entries that are counted at a time.
_ENTRIES = 2**24
Binning = Literal["equal-width", "zero-quantiles"]


@dataclass(frozen=True)
class MutualInformationGap:
    """Mutual information gaps.

    Attributes:
        value: mean over factors.
        per_factor: factor → (largest − second largest I(z_j; factor)) / H(factor), between 0 and 1.
        variant: how features were divided into bins.
    """

    value: float
    per_factor: Mapping[str, float]
    variant: str

    def __float__(self) -> float:
        return self.value


def mutual_information_gap(
    z: Any, factors: Any, bins: int = 20, binning: Binning = "equal-width"
) -> MutualInformationGap:
    """Return the mutual information gap, averaged over factors (MIG, Chen et al., 2018).

    The gap of a factor is the difference between the largest and the second largest mutual information of a feature
    with it, divided by the entropy of the factor. It is 1 if exactly one feature determines the factor and all others
    are independent of it, and 0 if two features are equally informative.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix with at least 2 features. Rows are not normalised.
        factors: name → `(samples,)` values, or an array `(samples, factors)` whose columns are named "0", "1" and
            so on. Samples with an unlabelled (negative) value are left out for that factor.
        bins: the number of bins that each feature is divided into.
        binning: "equal-width" divides the range of a feature evenly. "zero-quantiles" suits sparse codes: one bin for
            inactive entries (at most 1e-5 of the row's length) and bins - 1 with equally many active entries each.

    Example:
        >>> z = torch.tensor([[0.0, 0.5], [0.0, 0.5], [1.0, 0.5], [1.0, 0.5]])
        >>> mutual_information_gap(z, {"shape": [0, 0, 1, 1]}).value
        1.0
    """
    check(z, "mutual_information_gap")
    require(
        "mutual_information_gap",
        (z.shape[1] > 1, f"z has {z.shape[1]} feature, expected 2 or more"),
        (bins > 1, f"bins is {bins}, expected 2 or more"),
        (binning in get_args(Binning), f"binning is {binning!r}, expected one of {', '.join(get_args(Binning))}"),
    )
    dense = as_dense(z, "mutual_information_gap")
    divide = _equal_width if binning == "equal-width" else _zero_quantiles
    all_binned = divide(dense, bins)
    per_factor = {}
    for name, values in _named(factors).items():
        y = as_labels(values, len(dense), "mutual_information_gap", f"factor {name}").to(dense.device)
        known = y >= 0
        entropy = float(_entropy(torch.bincount(y[known])[None]))
        if entropy == 0:
            raise ValueError(f"mutual_information_gap: factor {name} has a single value, expected 2 or more")
        binned = all_binned if bool(known.all()) else divide(dense[known], bins)
        best = information(binned, y[known], bins).topk(2).values
        per_factor[name] = float(best[0] - best[1]) / entropy
    how = "of equal width" if binning == "equal-width" else "one for inactive entries, the others equally full"
    value = sum(per_factor.values()) / len(per_factor)
    return MutualInformationGap(value, per_factor, f"{bins} bins per feature, {how}")


def information(binned: Tensor, y: Tensor, bins: int, entries: int = _ENTRIES) -> Tensor:
    """Return `(features,)` mutual information in nats of `(samples, features)` bins and `(samples,)` classes.

    About `entries` entries are counted at a time.
    """
    samples, features = binned.shape
    classes = int(y.max()) + 1
    found = []
    at_once = max(1, entries // max(samples, bins * classes))
    for first in range(0, features, at_once):
        part = binned[:, first : first + at_once]
        cells = (torch.arange(part.shape[1], device=binned.device) * bins + part) * classes + y[:, None]
        joint = torch.bincount(cells.flatten(), minlength=part.shape[1] * bins * classes).view(-1, bins, classes)
        found.append(_entropy(joint.sum(2)) + _entropy(joint.sum(1)) - _entropy(joint.flatten(1)))
    return torch.cat(found)


def _entropy(counts: Tensor) -> Tensor:
    """Return the entropy in nats of each row of counts."""
    each: Tensor = torch.special.entr(counts / counts.sum(1, keepdim=True).double())
    return each.sum(1)


def _equal_width(z: Tensor, bins: int) -> Tensor:
    low, high = z.aminmax(dim=0)
    width = (high.double() - low).masked_fill(high == low, 1)
    return ((z.double() - low) / width * bins).long().clamp(max=bins - 1)


def _zero_quantiles(z: Tensor, bins: int) -> Tensor:
    """Return bin 0 for inactive entries, and for active ones a bin by rank; equal entries share a bin."""
    is_active = active(z)
    binned = torch.zeros_like(z, dtype=torch.int64)
    level = torch.arange(1, bins - 1, device=z.device)
    for feature in range(z.shape[1]):
        values = z[is_active[:, feature], feature].contiguous()
        if len(values):
            # Of n active entries, the one at place p in ascending order is in bin 1 + ⌊p (bins − 1) / n⌋.
            first_places = (level * len(values) + bins - 2) // (bins - 1)
            edges = values.sort().values[first_places.clamp(max=len(values) - 1)]
            binned[is_active[:, feature], feature] = 1 + torch.searchsorted(edges, values, right=True)
    return binned


def _named(factors: Any) -> Mapping[str, Any]:
    if isinstance(factors, Mapping):
        named = dict(factors)
    else:
        columns = factors if isinstance(factors, Tensor) else np.asarray(factors)
        if columns.ndim != 2:
            raise ValueError(
                f"mutual_information_gap: factors has shape {tuple(columns.shape)}, expected (samples, factors)"
            )
        named = {str(i): columns[:, i] for i in range(columns.shape[1])}
    if not named:
        raise ValueError("mutual_information_gap: factors is empty, expected at least one factor")
    return named
