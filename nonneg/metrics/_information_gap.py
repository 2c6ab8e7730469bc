"""Mutual information gap: is a factor of the data in one feature, or spread over several?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nonneg.codes import EPSILON
from nonneg.metrics._codes import as_dense, check, unit_rows
from nonneg.metrics._labels import as_labels

# Entries counted at a time.
_ENTRIES = 2**24


@dataclass(frozen=True)
class MutualInformationGap:
    """The gap, and what it was computed from.

    Attributes:
        value: mean over factors.
        per_factor: factor → (largest − second largest I(z_j; factor)) / H(factor), between 0 and 1.
        variant: how features were cut into bins.
    """

    value: float
    per_factor: Mapping[str, float]
    variant: str

    def __float__(self) -> float:
        return self.value


def mutual_information_gap(
    z: Any, factors: Any, bins: int = 20, binning: Literal["equal-width", "zero-quantiles"] = "equal-width"
) -> MutualInformationGap:
    """By how much the feature that knows most of a factor knows more than the second, averaged (Chen et al., 2018).

    Args:
        z: `(samples, features)`, as they are, two features or more: torch, NumPy or SciPy sparse.
        factors: name → `(samples,)` integers, or `(samples, n)` integers, named "0", "1" and so on; of each
            factor, samples with a negative value are left out.
        bins: into how many each feature is cut.
        binning: "equal-width" from the least to the largest entry; or "zero-quantiles": a bin for entries that are
            not active (under 1e-5 of the row's length) and bins - 1 of equally many active ones.

    Example:
        >>> z = torch.tensor([[0.0, 0.5], [0.0, 0.5], [1.0, 0.5], [1.0, 0.5]])
        >>> mutual_information_gap(z, {"shape": [0, 0, 1, 1]}).value
        1.0
    """
    check(z, "mutual_information_gap")
    samples, features = z.shape
    if features < 2:
        raise ValueError("mutual_information_gap: z has 1 feature, expected 2 or more")
    if bins < 2:
        raise ValueError(f"mutual_information_gap: bins is {bins}, expected 2 or more")
    if binning not in ("equal-width", "zero-quantiles"):
        raise ValueError(f"mutual_information_gap: binning is {binning!r}, expected 'equal-width' or 'zero-quantiles'")
    dense = as_dense(z, "mutual_information_gap")
    in_bins = _equal_width if binning == "equal-width" else _zero_quantiles
    whole = in_bins(dense, bins)
    per_factor = {}
    for name, values in _named(factors).items():
        y = as_labels(values, samples, "mutual_information_gap", f"values of factor {name}").to(dense.device)
        known = y >= 0
        entropy = float(_entropy(torch.bincount(y[known])[None]))
        if entropy == 0:
            raise ValueError(f"mutual_information_gap: factor {name} has one value only, expected two or more")
        cut = whole if bool(known.all()) else in_bins(dense[known], bins)
        best = information(cut, y[known], bins).topk(2).values
        per_factor[name] = float(best[0] - best[1]) / entropy
    how = "equal width" if binning == "equal-width" else "one of inactive entries, the others of equally many active"
    value = sum(per_factor.values()) / len(per_factor)
    return MutualInformationGap(value, per_factor, f"{bins} bins a feature, {how}")


def information(cut: Tensor, y: Tensor, bins: int) -> Tensor:
    """`(features,)` in nats: I(bin of the feature; class), of `(samples, features)` bins and `(samples,)` classes."""
    samples, features = cut.shape
    classes = int(y.max()) + 1
    found = []
    together = max(1, _ENTRIES // max(samples, bins * classes))
    for first in range(0, features, together):
        part = cut[:, first : first + together]
        cells = (torch.arange(part.shape[1], device=cut.device) * bins + part) * classes + y[:, None]
        joint = torch.bincount(cells.flatten(), minlength=part.shape[1] * bins * classes).view(-1, bins, classes)
        found.append(_entropy(joint.sum(2)) + _entropy(joint.sum(1)) - _entropy(joint.flatten(1)))
    return torch.cat(found)


def _entropy(counts: Tensor) -> Tensor:
    """In nats, of each row of counts."""
    each: Tensor = torch.special.entr(counts / counts.sum(1, keepdim=True).double())
    return each.sum(1)


def _equal_width(z: Tensor, bins: int) -> Tensor:
    low, high = z.aminmax(dim=0)
    width = (high.double() - low).masked_fill(high == low, 1)
    return ((z.double() - low) / width * bins).long().clamp(max=bins - 1)


def _zero_quantiles(z: Tensor, bins: int) -> Tensor:
    """Bin 0 for inactive entries; an active one's bin is its place among them, and equal ones share theirs."""
    active = unit_rows(z).abs() > EPSILON
    cut = torch.zeros_like(z, dtype=torch.int64)
    level = torch.arange(1, bins - 1, device=z.device)
    for feature in range(z.shape[1]):
        values = z[active[:, feature], feature].contiguous()
        if len(values):
            # Of n active ones, place p in ascending order is in bin 1 + ⌊p (bins − 1) / n⌋.
            first_places = (level * len(values) + bins - 2) // (bins - 1)
            edges = values.sort().values[first_places.clamp(max=len(values) - 1)]
            cut[active[:, feature], feature] = 1 + torch.searchsorted(edges, values, right=True)
    return cut


def _named(factors: Any) -> Mapping[str, Any]:
    if isinstance(factors, Mapping):
        named = dict(factors)
    else:
        columns = factors if isinstance(factors, Tensor) else np.asarray(factors)
        if columns.ndim != 2:
            raise ValueError(
                f"mutual_information_gap: factors have shape {tuple(columns.shape)}, expected (samples, factors)"
            )
        named = {str(i): columns[:, i] for i in range(columns.shape[1])}
    if not named:
        raise ValueError("mutual_information_gap: no factor is given, expected one or more")
    return named
