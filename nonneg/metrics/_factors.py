"""Which known factor does a feature follow? For data whose making is known."""

from typing import Any

import torch
from torch import Tensor

from nonneg.metrics._codes import as_dense, as_labels


def factor_share(z: Any, factor: Any, bins: int = 3) -> Tensor:
    """How much of what a feature does is explained by a factor: I(feature; factor) / H(feature).

    A feature's values are cut into one bin for zero and quantile bins for the rest, as most values
    of a sparse feature are zero. 1: the factor decides the feature. 0: they have nothing in common.

    Args:
        z: `(samples, features)`: torch, NumPy or SciPy sparse.
        factor: `(samples,)` integers.
        bins: quantile bins of the non-zero values.

    Returns:
        `(features,)` float64; NaN for a feature that never changes.

    Example:
        >>> z = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
        >>> factor_share(z, [0, 0, 1, 1])
        tensor([1., 0.], dtype=torch.float64)
    """
    dense = as_dense(z, "factor_share")
    y = as_labels(factor, len(dense), "factor_share").to(dense.device)
    return torch.stack([_share(column, y, bins) for column in dense.T])


def _share(column: Tensor, y: Tensor, bins: int) -> Tensor:
    binned = torch.zeros_like(y)
    on = column != 0
    if bool(on.any()):
        edges = column[on].double().quantile(torch.linspace(0, 1, bins + 1, device=column.device).double())
        binned[on] = torch.bucketize(column[on].double(), edges[1:-1], right=True) + 1
    table = torch.bincount(binned * (int(y.max()) + 1) + y).double() / len(y)
    joint = torch.nn.functional.pad(table, (0, (bins + 1) * (int(y.max()) + 1) - len(table)))
    joint = joint.view(bins + 1, -1)
    entropy = torch.special.entr(joint.sum(1)).sum()
    information = entropy + torch.special.entr(joint.sum(0)).sum() - torch.special.entr(joint).sum()
    # Below rounding error a feature's entropy is that of a constant.
    return torch.where(entropy > 1e-12, (information / entropy).clamp(0, 1), torch.nan)
