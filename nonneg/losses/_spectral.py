"""The spectral contrastive loss, which the theory of non-negative features analyses."""

import torch
import torch.distributed as dist
from torch import Tensor

from nonneg.gathering import gather, mean_over_processes, total
from nonneg.losses._checks import checked_batch, checked_related, working_dtype
from nonneg.losses._rows import full_precision


def spectral(z1: Tensor, z2: Tensor, group: dist.ProcessGroup | None = None, related: Tensor | None = None) -> Tensor:
    """Spectral contrastive loss (HaoChen et al., 2021): an unbiased estimate from a batch of pairs.

        loss = −2 E[f(x)·f(x⁺)] + E[(f(x)·f(x⁻))²]

    where x and x⁺ are two views of one sample and x⁻ is a view of another sample. Negatives are all views of other
    pairs: the views of one pair are not independent and would bias the second term. Rows are not normalised. Memory
    grows linearly with the batch.

    Args:
        z1, z2: `(pairs, features)` in any floating-point dtype; row i of both are two views of one sample.
        group: also use the views of these processes as negatives, as in `info_nce`.
        related: as in `info_nce`; memory then grows with the square of the batch.

    Returns:
        A scalar in float32 (float64 for float64 input).

    Example:
        >>> z = torch.eye(2)
        >>> spectral(z, z)
        tensor(-2.)
    """
    rank, processes, pairs = checked_batch("spectral", group, z1=z1, z2=z2)
    related = checked_related("spectral", related, z1)
    with full_precision(z1):
        dtype = working_dtype(z1)
        a, b = z1.to(dtype), z2.to(dtype)
        views = torch.cat((a, b))
        everyone = views if group is None else gather(views, group).flatten(0, 1)
        agreement = (a * b).sum(1)
        if related is not None:
            repulsion = unrelated_energy(views, everyone, related.repeat(2), group)
            return mean_over_processes(repulsion - 2 * agreement.mean(), group)
        within = a.square().sum(1).square() + 2 * agreement.square() + b.square().sum(1).square()
        pair = torch.arange(processes * pairs, device=z1.device).view(processes, 1, pairs).expand(-1, 2, -1)
        repulsion = energy(views, everyone, pair[rank].flatten(), pair.flatten(), within.sum())
        negatives = 4 * pairs * (pairs * processes - 1)
        return mean_over_processes(repulsion / negatives - 2 * agreement.mean(), group)


def energy(x: Tensor, y: Tensor, x_pair: Tensor, y_pair: Tensor, within: Tensor) -> Tensor:
    """Return Σ (xᵢ·yⱼ)² over all i and j of different pairs, in memory that is linear in the rows.

    Args:
        x, y: `(rows, features)` of this process and `(all rows, features)` of all processes.
        x_pair, y_pair: the pair that each row belongs to.
        within: the same sum over i and j of the same pair.
    """
    rows, features = x.shape
    if rows <= features:
        return (x @ y.T).square().masked_fill(x_pair[:, None] == y_pair, 0).sum()
    # With many rows, the sum over all i and j comes from a small matrix, features x features. Subtracting the few
    # terms within pairs then costs little precision; with few rows it would cost much.
    gram = x.T @ x
    return (gram * (gram if y is x else y.T @ y)).sum() - within


def unrelated_energy(x: Tensor, y: Tensor, related: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Return the mean of (xᵢ·yⱼ)² over all i and j of different numbers; memory grows with the square of the rows.

    Args:
        x, y: `(rows, features)` of this process and `(all rows, features)` of all processes.
        related: `(rows,)`, the number of each row of this process.
        group: the processes.
    """
    is_negative = related[:, None] != gather(related, group).flatten()
    count = total(is_negative.sum(), group).clamp(min=1) / (1 if group is None else group.size())
    return ((x @ y.T).square() * is_negative).sum() / count
