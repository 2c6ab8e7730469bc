"""Losses over pairs of two modalities, such as image and text, with one encoder each and a shared space."""

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from nonneg.gathering import gather, mean_over_processes
from nonneg.losses._checks import checked_batch, checked_related, checked_temperature, working_dtype
from nonneg.losses._rows import full_precision, sum_over_rows, unit_rows, unrelated_partner_loss
from nonneg.losses._spectral import energy, unrelated_energy

__all__ = ["info_nce", "spectral"]


def info_nce(
    a: Tensor,
    b: Tensor,
    temperature: float | Tensor = 0.07,
    group: dist.ProcessGroup | None = None,
    chunk_rows: int | None = None,
    related: Tensor | None = None,
) -> Tensor:
    """Contrast matching rows of two modalities with all other rows of the batch (the loss of CLIP).

        loss = ½ · mean_i −log( exp(a_i·b_i/τ) / Σ_j exp(a_i·b_j/τ) )
             + ½ · mean_i −log( exp(b_i·a_i/τ) / Σ_j exp(b_i·a_j/τ) )

    where rows are scaled to length 1 and τ is the temperature.

    Args:
        a, b: `(pairs, features)` in any floating-point dtype; row i of both belong together. All-zero rows are
            allowed: their similarity to everything is 0.
        temperature, group, chunk_rows: as in `nonneg.losses.info_nce`.
        related: `(pairs,)` integers: pairs with the same number, such as several texts of one image, are never
            negatives of each other, on any process. None if every other pair is a negative.

    Returns:
        A scalar, the mean of the two directions, in float32 (float64 for float64 input).

    Example:
        >>> info_nce(torch.eye(3), torch.eye(3), temperature=0.2)
        tensor(0.0134)
    """
    rank, _, pairs = checked_batch("multimodal.info_nce", group, a=a, b=b)
    related = checked_related("multimodal.info_nce", related, a)
    temperature = checked_temperature("multimodal.info_nce", temperature, a)
    with full_precision(a):
        units_a, units_b = (unit_rows(gather(z, group).flatten(0, 1)) for z in (a, b))
        mine = slice(rank * pairs, (rank + 1) * pairs)
        partner = torch.arange(mine.start, mine.stop, device=a.device)
        loss: Callable[..., Tensor] = _partner_loss
        rows: tuple[Tensor, ...] = (partner,)
        shared: tuple[Tensor, ...] = (temperature,)
        if related is not None:
            loss = unrelated_partner_loss
            rows, shared = (partner, related), (temperature, gather(related, group).flatten())
        a_to_b = sum_over_rows(loss, (units_a[mine], *rows), (units_b, *shared), chunk_rows)
        b_to_a = sum_over_rows(loss, (units_b[mine], *rows), (units_a, *shared), chunk_rows)
        return mean_over_processes((a_to_b + b_to_a) / (2 * pairs), group)


def _partner_loss(anchors: Tensor, partner: Tensor, candidates: Tensor, temperature: Tensor) -> Tensor:
    return F.cross_entropy((anchors / temperature) @ candidates.T, partner, reduction="sum")


def spectral(a: Tensor, b: Tensor, group: dist.ProcessGroup | None = None, related: Tensor | None = None) -> Tensor:
    """Spectral contrastive loss of two modalities: an unbiased estimate from a batch of pairs.

        loss = −2 E[f(x)·g(y)] + E[(f(x)·g(y⁻))²]

    where x and y belong together and y⁻ belongs to another pair. Rows are not normalised. Memory grows linearly
    with the batch.

    Args:
        a, b: `(pairs, features)` in any floating-point dtype; row i of both belong together.
        group: also use the rows of these processes as negatives, as in `nonneg.losses.info_nce`.
        related: as in `info_nce`; memory then grows with the square of the batch.

    Returns:
        A scalar in float32 (float64 for float64 input).

    Example:
        >>> spectral(torch.eye(2), torch.eye(2))
        tensor(-2.)
    """
    rank, processes, pairs = checked_batch("multimodal.spectral", group, a=a, b=b)
    related = checked_related("multimodal.spectral", related, a)
    with full_precision(a):
        dtype = working_dtype(a)
        x, y = a.to(dtype), b.to(dtype)
        everyone = gather(y, group).flatten(0, 1)
        agreement = (x * y).sum(1)
        if related is not None:
            repulsion = unrelated_energy(x, everyone, related, group)
            return mean_over_processes(repulsion - 2 * agreement.mean(), group)
        pair = torch.arange(processes * pairs, device=a.device).view(processes, pairs)
        repulsion = energy(x, everyone, pair[rank], pair.flatten(), agreement.square().sum())
        negatives = pairs * (pairs * processes - 1)
        return mean_over_processes(repulsion / negatives - 2 * agreement.mean(), group)
