"""InfoNCE in chunks of rows where every view is both anchor and candidate: each similarity is computed only once."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

# Below it, exponentials of similarities would leave the range of float32. They are summed without a maximum, which is
# only known after all chunks.
LEAST_TEMPERATURE = 0.025


class _Triangle(torch.autograd.Function):
    """The sum over views of −log of the softmax at the partner.

    Similarities form a symmetric matrix, so blocks on and above its diagonal are enough. The weight of a pair in the
    gradient is symmetric, too: exp(v·u/τ) (1/s_v + 1/s_u), where s is a view's sum of exponentials. Together this takes
    two thirds of the products of the plain form, and a chunk of memory.
    """

    @staticmethod
    def forward(
        ctx: Any,
        units: Tensor,
        partner: Tensor,
        temperature: float,
        chunk_rows: int,
        plain: Callable[[Tensor], Tensor],
    ) -> Tensor:
        sums = units.new_zeros(len(units))
        for rows, after, block in _blocks(units, temperature, chunk_rows):
            sums[rows] += block.sum(1)
            sums[after] += block[:, len(block) :].sum(0)
        ctx.save_for_backward(units, partner, sums)
        ctx.temperature, ctx.chunk_rows, ctx.plain = temperature, chunk_rows, plain
        return sums.log().sum() - (units * units[partner]).sum() / temperature

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        units, partner, sums = ctx.saved_tensors
        none = (None,) * 4
        if torch.is_grad_enabled():  # second derivatives are wanted
            return torch.autograd.grad(ctx.plain(units), units, grad_outputs[0], create_graph=True)[0], *none
        grad, share = -2 * units[partner], sums.reciprocal()
        for rows, after, block in _blocks(units, ctx.temperature, ctx.chunk_rows):
            block *= share[rows, None] + share[rows.start :]
            grad[rows].addmm_(block, units[rows.start :])
            grad[after].addmm_(block[:, len(block) :].T, units[rows])
        return grad.mul_(grad_outputs[0] / ctx.temperature), *none


def _blocks(units: Tensor, temperature: float, chunk_rows: int) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield rows, the rows after them, and exponentials of their similarities to all rows from the first one on."""
    for start in range(0, len(units), chunk_rows):
        rows = slice(start, min(start + chunk_rows, len(units)))
        block = (units[rows] / temperature) @ units[start:].T
        block.exp_().diagonal().zero_()
        yield rows, slice(rows.stop, len(units)), block


def triangle_loss(
    units: Tensor, partner: Tensor, temperature: float, chunk_rows: int, plain: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return the sum over views of InfoNCE's loss, `chunk_rows` views at a time.

    Args:
        units: `(views, features)`, rows of length 1 or 0.
        partner: `(views,)`, the other view of each sample; the partner of a partner is the view itself.
        temperature: at least `LEAST_TEMPERATURE`.
        chunk_rows: rows per chunk, at least 1.
        plain: the same loss in differentiable operations, for second derivatives.
    """
    loss: Tensor = _Triangle.apply(units, partner, temperature, chunk_rows, plain)  # type: ignore[no-untyped-call]
    return loss
