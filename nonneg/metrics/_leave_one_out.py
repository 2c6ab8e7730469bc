"""InfoNCE without each feature in turn, from one matrix of similarities.

With rows of length 1 and G = z1 z2ᵀ, the similarities without feature i are G − u vᵀ, where u and v are the columns
of feature i; to renormalise, rows are scaled by (1 − u²)^-½ and columns by (1 − v²)^-½.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.codes import EPSILON, unit_rows
from nonneg.extras import is_installed
from nonneg.metrics._codes import as_csr, as_dense, on_gpu

# Similarities held at a time: 2**25 in float64 take 256 MiB.
_ENTRIES = 2**25
_MOST_ANCHORS = 64


def losses_without(z1: Any, z2: Any, temperature: float, renormalise: bool) -> Tensor:
    """Return `(anchors, features)` in float64: the loss of an anchor without a feature, less its loss with all."""
    if on_gpu(z1) or not is_installed("numba"):
        x, y = (unit_rows(as_dense(z, "sepin").double()) for z in (z1, z2))
        return _on_device(x, y, temperature, renormalise)
    return _in_threads(unit_rows(as_csr(z1, "sepin")), unit_rows(as_csr(z2, "sepin")), temperature, renormalise)


def _on_device(x: Tensor, y: Tensor, temperature: float, renormalise: bool, entries: int = _ENTRIES // 4) -> Tensor:
    """Hold `(features, anchors, samples)` similarities, about `entries` of them at a time."""
    samples, features = x.shape
    gains = torch.empty_like(x)
    anchors = max(1, min(samples, entries // samples))
    at_once = max(1, entries // (anchors * samples))
    for start in range(0, samples, anchors):
        own = torch.arange(start, min(start + anchors, samples), device=x.device)
        similarity = x[own] @ y.T
        places = (own - start, own)
        with_all = _loss(similarity[None] / temperature, places)
        for first in range(0, features, at_once):
            u, v = x[own, first : first + at_once].T, y[:, first : first + at_once].T
            without = torch.baddbmm(similarity.expand(len(u), -1, -1), u[:, :, None], v[:, None, :], alpha=-1)
            without *= (_rescale(u, renormalise) / temperature)[:, :, None]
            without *= _rescale(v, renormalise)[:, None, :]
            gains[own, first : first + at_once] = (_loss(without, places) - with_all).T
    return gains


def _loss(logits: Tensor, places: tuple[Tensor, Tensor]) -> Tensor:
    return logits.logsumexp(2) - logits[:, places[0], places[1]]


def _rescale(entries: Tensor, renormalise: bool) -> Tensor:
    """Return the factor that scales a row of length 1 to length 1 again without this entry; 0 for an empty rest."""
    if not renormalise:
        return torch.ones_like(entries)
    left = 1 - entries.square()
    return torch.where(left > EPSILON**2, left.clamp(min=EPSILON**2).rsqrt(), 0)


def _in_threads(x: sp.csr_array, y: sp.csr_array, temperature: float, renormalise: bool) -> Tensor:
    from nonneg.metrics import _leave_one_out_kernel as kernel
    from nonneg.metrics._compiled import column_lists, in_threads, row_lists

    samples, features = x.shape
    rows, candidates, inverted = row_lists(x), row_lists(y), column_lists(y)
    factors = kernel.Factors(
        *(_rescale(torch.from_numpy(lists.values), renormalise).numpy() for lists in (rows, candidates, inverted))
    )
    gains = np.zeros((samples, features))
    is_dense = x.nnz > 0.1 * samples * features
    transposed = y.toarray().T if is_dense else y.T.tocsr()

    def work(first: int, last: int) -> None:
        block = x[first:last]
        similarity = block.toarray() @ transposed if is_dense else (block @ transposed).toarray()
        kernel.gains(similarity, rows, candidates, inverted, factors, temperature, first, gains[first:last])

    in_threads(work, samples, max(1, min(_MOST_ANCHORS, _ENTRIES // samples)))
    return torch.from_numpy(gains)
