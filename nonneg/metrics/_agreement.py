"""Do two sets of features say the same? Columns are matched one to one, then compared."""

from dataclasses import dataclass
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from nonneg.metrics._codes import as_dense, unit_columns


@dataclass(frozen=True)
class Match:
    """The best one-to-one match of the features of `a` to those of `b`.

    Attributes:
        a, b: `(matches,)` feature indices; `a[i]` is matched to `b[i]`.
        cosine: `(matches,)` cosine of the two features' activations over the samples.
    """

    a: Tensor
    b: Tensor
    cosine: Tensor


def match(a: Any, b: Any, signed: bool = True) -> Match:
    """Match features over the same samples so that the summed cosine is largest (Hungarian method).

    Args:
        a, b: `(samples, features)`, the same samples in the same order; the numbers of features may differ.
        signed: False takes the absolute cosine: features that are free up to their sign.

    Example:
        >>> a = torch.eye(3)
        >>> match(a, a[:, [2, 0, 1]]).b
        tensor([1, 2, 0])
    """
    x, y = as_dense(a, "match"), as_dense(b, "match")
    if len(x) != len(y):
        raise ValueError(f"match: a has {len(x)} samples and b {len(y)}, expected the same samples")
    cosine = unit_columns(x).T @ unit_columns(y)
    cosine = cosine if signed else cosine.abs()
    rows, columns = linear_sum_assignment(cosine.cpu().numpy(), maximize=True)
    chosen_a, chosen_b = torch.from_numpy(rows), torch.from_numpy(columns)
    return Match(chosen_a, chosen_b, cosine[chosen_a, chosen_b])
