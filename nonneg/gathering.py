"""Communication between processes, with gradients that are correct after DDP has averaged them.

The convention: after averaging over processes, gradients equal those of one process with the joint batch.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        parts = [torch.empty_like(x) for _ in range(group.size())]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        # The loss of every process depends on these rows, so their gradient is the sum over processes.
        grad = grad_outputs[0].contiguous()
        dist.all_reduce(grad, group=ctx.group)
        return grad[ctx.group.rank()], None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return total(x, group)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        return total(grad_outputs[0].contiguous(), ctx.group), None


def gather(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Return `(processes, *x.shape)`: the tensors of all processes, in order of rank.

    Every process must pass the same shape. Without a group the result is `x[None]` and nothing is sent.
    """
    if group is None:
        return x[None]
    return _Gather.apply(x, group)  # type: ignore[no-any-return, no-untyped-call]


def sum_over_processes(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Return the sum of `x` over the processes, with gradients. Without a group the result is `x`."""
    if group is None:
        return x
    return _Sum.apply(x, group)  # type: ignore[no-any-return, no-untyped-call]


def total(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Return the sum of `x` over the processes, as a constant."""
    x = x.detach()
    if group is not None:
        x = x.clone()
        dist.all_reduce(x, group=group)
    return x


def mean_over_processes(loss: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Return a scalar with the value of the joint batch's loss and the gradient of this process's share of it."""
    if group is None:
        return loss
    return loss + (total(loss, group) / group.size() - loss.detach())
