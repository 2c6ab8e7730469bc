"""How well a feature of one side of pairs, such as pictures, predicts the same feature of the other side."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nonneg.codes import active
from nonneg.metrics._codes import as_dense, check

_COLUMNS = 256  # features whose ranks are computed at a time


@dataclass(frozen=True)
class PartnerAuc:
    """Whether the two sides of pairs mean the same by a feature.

    Attributes:
        value: median over the features for which it is defined; NaN if there is none.
        per_feature: `(features,)` float64: the probability that a sample whose partner has the feature active has a
            larger value than one whose partner has it inactive; 0.5 is chance, NaN if all partners agree.
        defined: number of features for which it is defined.
    """

    value: float
    per_feature: Tensor
    defined: int


def partner_auc(a: Any, b: Any) -> PartnerAuc:
    """Return the area under the ROC curve of each feature's value in `a` for whether it is active in `b`.

    Args:
        a, b: `(pairs, features)` torch, NumPy or SciPy sparse matrices; row i of both belong together.

    Example:
        >>> pictures = np.array([[0.9, 0.0], [0.5, 0.2], [0.0, 0.7], [0.1, 0.0]])
        >>> texts = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
        >>> partner_auc(pictures, texts).per_feature.round(decimals=3).tolist()
        [1.0, 0.667]
    """
    from scipy.stats import rankdata  # on first use: it takes half a second to import

    for z in (a, b):
        check(z, "partner_auc")
    if tuple(a.shape) != tuple(b.shape):
        raise ValueError(f"partner_auc: a has shape {tuple(a.shape)} and b {tuple(b.shape)}, expected the same")
    values = as_dense(a, "partner_auc").cpu().numpy()
    is_active = active(as_dense(b, "partner_auc")).cpu().numpy()
    count = is_active.sum(axis=0)
    pairs = count * (len(values) - count)
    ranks = np.zeros(values.shape[1])
    for start in range(0, values.shape[1], _COLUMNS):
        block = slice(start, start + _COLUMNS)
        ranks[block] = (rankdata(values[:, block], axis=0) * is_active[:, block]).sum(axis=0)
    wins = ranks - count * (count + 1) / 2  # pairs of an active and an inactive row that are in order
    found = np.divide(wins, pairs, out=np.full(len(wins), np.nan), where=pairs > 0)
    median = float(np.nanmedian(found)) if (pairs > 0).any() else float("nan")
    return PartnerAuc(median, torch.from_numpy(found), int((pairs > 0).sum()))
