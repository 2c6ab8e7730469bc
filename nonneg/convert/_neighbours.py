"""How many nearest neighbours two representations of the same samples share."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.convert._rows import Rows
from nonneg.errors import InputError
from nonneg.messages import counted

_CHUNK = 1024


NEIGHBOURS = 10  # per row, if there are as many other rows


def neighbours_kept(before: Any, after: Any, k: int = NEIGHBOURS) -> float:
    """The share of each row's `k` nearest rows, by cosine similarity, that two representations have in common.

    A zero row, such as a code without an active feature, has no neighbours and therefore keeps none.

    Args:
        before, after: `(samples, …)`: arrays, tensors or SciPy sparse matrices of the same samples, two or more.
        k: neighbours per row, at most all other rows.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 8))
        >>> neighbours_kept(x, 3 * x)
        1.0
    """
    a, b = _dense(before), _dense(after)
    if len(a) < 2:
        raise InputError(f"neighbours cannot be compared among {counted(len(a), 'row')}, expected at least two rows")
    k = min(k, len(a) - 1)
    shared = 0
    for start in range(0, len(a), _CHUNK):
        near = [_nearest(z, start, k) for z in (a, b)]
        is_nonzero = (a[start : start + _CHUNK] != 0).any(1) & (b[start : start + _CHUNK] != 0).any(1)
        shared += int((near[0][:, :, None] == near[1][:, None, :])[is_nonzero].sum())
    return shared / (len(a) * k)


def _nearest(z: Tensor, start: int, k: int) -> Tensor:
    similarities = z[start : start + _CHUNK] @ z.T
    rows = torch.arange(len(similarities), device=z.device)
    similarities[rows, rows + start] = -torch.inf
    return similarities.topk(k, dim=1).indices


def _dense(rows: Any) -> Tensor:
    if sp.issparse(rows):
        rows = rows.toarray()
    given = rows if isinstance(rows, Tensor) else np.asarray(rows)
    return torch.cat(list(Rows(given, device=torch.device("cpu")).blocks(_CHUNK)))
