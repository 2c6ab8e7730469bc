"""Batch norm, relu and the sum with a shortcut for training on one GPU, in few passes over memory.

They take a third of a step, all of it waiting for memory. With kernels of our own, the network needs no compiler, which
would take most of a minute before the first step. Evaluation, several processes, float64, CPUs and code that is
compiled or exported use torch's batch norm.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def normed(norm: nn.Module, x: Tensor, *, relu: bool = False) -> Tensor:
    """Apply a norm, and relu if asked for.

    Shape: `(batch, channels, height, width)` to the same.

    Example:
        >>> normed(nn.BatchNorm2d(4), torch.randn(2, 4, 8, 8), relu=True).min()
        tensor(0., grad_fn=<MinBackward1>)
    """
    if _has_kernels(norm, x):
        return _Normed.apply(x, norm.weight, norm.bias, norm, relu)  # type: ignore[no-any-return,no-untyped-call]
    out: Tensor = norm(x)
    return F.relu(out, inplace=True) if relu else out


def joined(norm: nn.Module, x: Tensor, shortcut: Tensor) -> tuple[Tensor, Tensor]:
    """Apply a norm, add the shortcut, apply relu; return the result twice, for its two uses.

    The gradients of both uses then arrive apart and are added where they are needed, without a pass of their own.

    Shape: `(batch, channels, height, width)`, both, to two of the same.
    """
    if _has_kernels(norm, x) and shortcut.dtype == x.dtype:
        shortcut = shortcut.contiguous(memory_format=torch.channels_last)
        return _Joined.apply(x, norm.weight, norm.bias, shortcut, norm)  # type: ignore[no-any-return,no-untyped-call]
    out: Tensor = norm(x)
    out += shortcut
    out = F.relu(out, inplace=True)
    return out, out


def _has_kernels(norm: nn.Module, x: Tensor) -> bool:
    return (
        type(norm) is nn.BatchNorm2d  # not a synchronised one
        and norm.training
        and norm.affine  # true for every norm made here, like the next two, but a network can be changed
        and norm.track_running_stats
        and norm.momentum is not None
        and norm.weight.dtype is torch.float32
        and x.dtype in _DTYPES
        and x.numel() > x.shape[1]  # with one value per channel, torch reports that there is no variance
        and x.is_cuda
        and not torch.compiler.is_compiling()  # nor exporting: a model may run where nonneg is not installed
        and _has_triton()
        and x.is_contiguous(memory_format=torch.channels_last)
    )


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None  # torch for GPUs brings it, except on Windows


class _Normed(torch.autograd.Function):
    """Batch norm, and relu if asked for. Relu's mask is computed again from `x`, and the output is not kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, norm: nn.BatchNorm2d, relu: bool) -> Tensor:
        from nonneg.modalities.images.encoders.norm import _kernels  # needs Triton

        scaling = _kernels.moments(x, norm)
        ctx.save_for_backward(x, scaling)
        ctx.relu = relu
        return _kernels.scaled(x, None, scaling, relu)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        from nonneg.modalities.images.encoders.norm import _kernels

        x, scaling = ctx.saved_tensors
        slope = slope.contiguous(memory_format=torch.channels_last)
        grad, of_norm, _ = _kernels.gradients(x, scaling, ctx.relu, slope, None, None)
        return grad, *of_norm, None, None


class _Joined(torch.autograd.Function):
    """relu(batch norm + shortcut), returned twice."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, shortcut: Tensor, norm: nn.BatchNorm2d
    ) -> tuple[Tensor, Tensor]:
        from nonneg.modalities.images.encoders.norm import _kernels

        scaling = _kernels.moments(x, norm)
        out = _kernels.scaled(x, shortcut, scaling, True)
        ctx.save_for_backward(x, scaling, out)
        ctx.set_materialize_grads(False)
        return out, out.detach()  # the same memory

    @staticmethod
    def backward(ctx: Any, slope: Tensor | None, other: Tensor | None) -> tuple[Tensor | None, ...]:
        from nonneg.modalities.images.encoders.norm import _kernels

        x, scaling, out = ctx.saved_tensors
        slopes = [given.contiguous(memory_format=torch.channels_last) for given in (slope, other) if given is not None]
        if not slopes:
            return None, None, None, None, None
        grad, of_norm, rectified = _kernels.gradients(x, scaling, True, slopes[0], (*slopes, None)[1], out)
        return grad, *of_norm, rectified, None
