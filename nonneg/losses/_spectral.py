"""The spectral contrastive loss, the one the theory of non-negative features is about."""

import torch
import torch.distributed as dist
from torch import Tensor

from nonneg.losses._checks import check_enough, check_features, working_dtype
from nonneg.losses._gather import gather, mean_over_processes, rank_and_size
from nonneg.losses._rows import full_precision


def spectral(z1: Tensor, z2: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """−2 E[f(x)·f(x⁺)] + E[(f(x)·f(x⁻))²], an unbiased estimate from a batch of pairs.

    Negatives are all views of different pairs; views of one pair are not independent and would
    bias the second term. Nothing is normalised. Memory is linear in the batch.

    Args:
        z1, z2: `(pairs, features)`, any floating type; row i of both are two views of one sample.
        group: take negatives from all these processes, as in `info_nce`.

    Returns:
        A scalar in float32 (float64 for float64 input).

    Example:
        >>> z = torch.eye(2)
        >>> spectral(z, z)
        tensor(-2.)
    """
    check_features("spectral", z1=z1, z2=z2)
    rank, processes = rank_and_size(group)
    pairs = len(z1)
    check_enough("spectral", pairs * processes, "pair")
    with full_precision(z1):
        dtype = working_dtype(z1)
        a, b = z1.to(dtype), z2.to(dtype)
        views = torch.cat((a, b))
        everyone = views if group is None else gather(views, group).flatten(0, 1)
        agreement = (a * b).sum(1)
        within = a.square().sum(1).square() + 2 * agreement.square() + b.square().sum(1).square()
        pair = torch.arange(processes * pairs, device=z1.device).view(processes, 1, pairs).expand(-1, 2, -1)
        repulsion = energy(views, everyone, pair[rank].flatten(), pair.flatten(), within.sum())
        negatives = 4 * pairs * (pairs * processes - 1)
        return mean_over_processes(repulsion / negatives - 2 * agreement.mean(), group)


def energy(x: Tensor, y: Tensor, x_pair: Tensor, y_pair: Tensor, within: Tensor) -> Tensor:
    """Σ (xᵢ·yⱼ)² over all i and j of different pairs, in memory that is linear in rows.

    Args:
        x, y: `(rows, features)` of this process and `(all rows, features)` of everyone.
        x_pair, y_pair: which pair each row belongs to.
        within: the same sum over i and j of the same pair.
    """
    rows, features = x.shape
    if rows <= features:
        return (x @ y.T).square().masked_fill(x_pair[:, None] == y_pair, 0).sum()
    # With many rows the sum over everything is a small product, features x features. Subtracting the
    # few terms within pairs from so many costs little precision; with few rows it would cost much.
    gram = x.T @ x
    return (gram * (gram if y is x else y.T @ y)).sum() - within
