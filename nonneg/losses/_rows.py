"""Shared by the losses over similarities of rows: unit rows, evaluation in chunks, full precision."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nonneg.losses._checks import working_dtype


def full_precision(z: Tensor) -> torch.autocast:
    """Disable autocast, which would compute similarities in half precision; dividing by τ amplifies rounding."""
    return torch.autocast(z.device.type, enabled=False)


class _UnitRows(torch.autograd.Function):
    # Written by hand, because autograd would keep three copies of the rows where one is enough.
    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor) -> tuple[Tensor, Tensor]:
        # Squares of large entries (exp produces them) overflow and those of small ones vanish: scale by the peak first.
        peak = z.abs().amax(dim=1, keepdim=True)
        empty = peak == 0
        scaled = z / peak.masked_fill(empty, 1)
        relative = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
        unit = scaled / relative.masked_fill(empty, 1)
        length = peak * relative
        typical = length.mean()
        return unit, torch.where(empty, typical.masked_fill(typical == 0, 1), length)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor | None) -> Tensor | None:
        unit, length = ctx.saved_tensors
        grad_unit, grad_length = grad_outputs
        grad: Tensor | None = None
        if grad_unit is not None:
            along = torch.linalg.vecdot(unit, grad_unit)[:, None]
            grad = torch.addcmul(grad_unit, unit, along, value=-1) / length
        if grad_length is not None:  # only second derivatives need this
            grad = unit * grad_length if grad is None else grad + unit * grad_length
        return grad


def unit_rows(z: Tensor) -> Tensor:
    """Return the rows scaled to length 1, in float32 or better; an all-zero row stays zero.

    `nonneg.codes.unit_rows` with a gradient for training. Rectified features do have all-zero rows. `F.normalize`
    divides them by 1e-12, and so multiplies their gradient by 1e12. Here their gradient is computed as if they had
    the mean length of all rows: it is as large as that of the other rows, so that it can revive the row.
    """
    unit, _ = _UnitRows.apply(z.to(working_dtype(z)))  # type: ignore[no-untyped-call]
    return unit  # type: ignore[no-any-return]


def unrelated_partner_loss(
    anchors: Tensor, partner: Tensor, own: Tensor, candidates: Tensor, temperature: Tensor, everyone: Tensor
) -> Tensor:
    """Return the sum of −log of the softmax at the partner, without the other candidates related to an anchor.

    Args:
        anchors, candidates: `(rows, features)` and `(all, features)`, of length 1 or 0.
        partner: `(rows,)`, the candidate to find.
        own, everyone: `(rows,)` and `(all,)` integers, the same for rows that are never negatives of each other.
        temperature: the divisor of the similarities.
    """
    is_left_out = (own[:, None] == everyone).scatter(1, partner[:, None], False)
    logits = ((anchors / temperature) @ candidates.T).masked_fill(is_left_out, float("-inf"))
    return F.cross_entropy(logits, partner, reduction="sum")


def sum_over_rows(
    loss_of_rows: Callable[..., Tensor], rows: tuple[Tensor, ...], shared: tuple[Tensor, ...], chunk_rows: int | None
) -> Tensor:
    """Return `loss_of_rows(*rows, *shared)`, which must be a sum over rows; evaluate it in chunks if asked to.

    In chunks, the similarities of a chunk are dropped after use and recomputed for the backward pass. Memory is
    then chunk x candidates instead of rows x candidates, for a third more work.
    """
    if chunk_rows is None:
        return loss_of_rows(*rows, *shared)
    if chunk_rows < 1:
        raise ValueError(f"chunk_rows is {chunk_rows}, expected at least 1, or None for all rows at once")
    sums = [
        checkpoint(loss_of_rows, *chunk, *shared, use_reentrant=False, preserve_rng_state=False)
        for chunk in zip(*(r.split(chunk_rows) for r in rows), strict=True)
    ]
    return torch.stack(sums).sum(0)
