"""What the losses over rows of similarities share: unit rows, row-wise evaluation in chunks, float32."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nonneg.losses._checks import working_dtype


def full_precision(z: Tensor) -> torch.autocast:
    """No autocast inside: it would take the similarities in half precision, where 1/τ blows rounding up."""
    return torch.autocast(z.device.type, enabled=False)


class _UnitRows(torch.autograd.Function):
    # By hand, because autograd would keep three copies of the rows where one is enough.
    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor) -> tuple[Tensor, Tensor]:
        # Squares of large entries (exp makes them) overflow, those of small ones vanish: scale by the peak first.
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
        if grad_length is not None:  # only second derivatives come this way
            grad = unit * grad_length if grad is None else grad + unit * grad_length
        return grad


def unit_rows(z: Tensor) -> Tensor:
    """Rows of length 1 in float32 or better; an all-zero row stays zero.

    Rectified features do have all-zero rows. `F.normalize` divides those by 1e-12, and so their
    gradient too; here they count as of the mean length of all rows: the value is still zero, and
    the gradient that revives the row is of the size of its neighbours'.
    """
    unit, _ = _UnitRows.apply(z.to(working_dtype(z)))  # type: ignore[no-untyped-call]
    return unit  # type: ignore[no-any-return]


def sum_over_rows(
    loss_of_rows: Callable[..., Tensor], rows: tuple[Tensor, ...], shared: tuple[Tensor, ...], chunk_rows: int | None
) -> Tensor:
    """`loss_of_rows(*rows, *shared)`, a sum over rows, at once or a chunk at a time.

    In chunks, the similarities of a chunk are dropped after use and computed again for the
    backward pass: memory is chunk x candidates instead of rows x candidates, for a third more work.
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
