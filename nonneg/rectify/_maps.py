"""Maps to non-negative features that torch does not have."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class _RepReLU(torch.autograd.Function):
    # The straight-through form `gelu(x) + (relu(x) - gelu(x)).detach()` is subject to rounding and keeps three tensors;
    # a Function is exact in both directions and keeps one.
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return F.relu(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.ops.aten.gelu_backward(grad_outputs[0], x)  # type: ignore[no-any-return]


def rep_relu(x: Tensor) -> Tensor:
    """Return relu(x), with the gradient of gelu in the backward pass, so that inactive features keep learning.

    `torch.export` keeps only the forward pass: an exported model is for inference.

    Example:
        >>> x = torch.tensor([-1.0, 2.0], requires_grad=True)
        >>> rep_relu(x).tolist()
        [0.0, 2.0]
        >>> torch.autograd.grad(rep_relu(x).sum(), x)[0]
        tensor([-0.0833,  1.0852])
    """
    return _RepReLU.apply(x)  # type: ignore[no-any-return, no-untyped-call]


def top_k(x: Tensor, k: int) -> Tensor:
    """Return relu(x) with only the `k` largest entries of each row kept: at most `k` are active per row.

    Example:
        >>> top_k(torch.tensor([[3.0, 1.0, 2.0, -1.0]]), k=2)
        tensor([[3., 0., 2., 0.]])
    """
    if k > x.shape[-1]:
        raise ValueError(f"top_k: k is {k}, expected at most {x.shape[-1]}, the number of features")
    values, kept = x.topk(k, dim=-1)
    return torch.zeros_like(x).scatter(-1, kept, F.relu(values))
