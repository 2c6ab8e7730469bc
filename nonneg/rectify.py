"""The rectifier σ₊ at the end of a projector, which turns contrastive learning into non-negative factorisation."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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


_MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "rep_relu": rep_relu,
    "softplus": F.softplus,
    "sigmoid": torch.sigmoid,
    "exp": torch.exp,
    "gelu": F.gelu,
    "leaky_relu": F.leaky_relu,
}
CONTROLS = ("gelu", "leaky_relu")
KINDS = (*_MAPS, "top_k")


class NonNegative(nn.Module):
    """The rectifier σ₊ that ends a projector and makes its features non-negative.

    Args:
        kind: "relu", "rep_relu" (relu with the gradient of gelu), "softplus", "sigmoid", "exp" or "top_k" (relu, then
            only the `k` largest entries of each row). The controls "gelu" and "leaky_relu" serve for comparison:
            their output may be negative, and they issue a warning.
        k: the largest number of active features per row; required for "top_k", and only allowed there.

    Shape:
        `(..., features)` to the same shape, in the same dtype.

    The kind is stored in the `state_dict`: loading weights that were trained with another kind is an error.

    Example:
        >>> projector = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), NonNegative("rep_relu"))
        >>> bool((projector(torch.randn(5, 8)) >= 0).all())
        True
    """

    def __init__(self, kind: str = "relu", k: int | None = None) -> None:
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"NonNegative: kind is {kind!r}, expected one of {', '.join(KINDS)}")
        if (kind == "top_k") != (k is not None):
            raise ValueError(
                f"NonNegative: k is {k} with kind {kind!r}, expected a number for top_k and None otherwise"
            )
        if k is not None and (type(k) is not int or k < 1):
            raise ValueError(f"NonNegative: k is {k!r}, expected a whole number of at least 1")
        if kind in CONTROLS:
            warnings.warn(f"NonNegative({kind!r}) is a control: its output may be negative", UserWarning, stacklevel=2)
        self.kind = kind
        self.k = k

    @property
    def is_non_negative(self) -> bool:
        """Whether the output is never negative; False for the controls."""
        return self.kind not in CONTROLS

    def forward(self, x: Tensor) -> Tensor:
        if self.k is not None:
            return top_k(x, self.k)
        return _MAPS[self.kind](x)

    def extra_repr(self) -> str:
        return self._label()

    def _label(self) -> str:
        return self.kind if self.k is None else f"{self.kind}:{self.k}"

    def get_extra_state(self) -> Tensor:
        # Bytes in a tensor, because safetensors and `torch.load(weights_only=True)` accept nothing else.
        return torch.tensor(list(self._label().encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        saved = bytes(state.tolist()).decode()
        if saved != self._label():
            raise ValueError(f"the weights were saved under NonNegative {saved!r}, this module is {self._label()!r}")
