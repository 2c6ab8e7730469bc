"""`NonNegative`: the rectifier σ₊ at the end of a projector, which turns contrastive learning into factorisation."""

import warnings
from collections.abc import Callable
from statistics import NormalDist

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.gathering import total
from nonneg.rectify._maps import rep_relu, top_k

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
"""Kinds that may be negative, for comparison."""
KINDS = (*_MAPS, "top_k")
"""Kinds of rectifiers."""
WITH_SHARE = ("relu", "rep_relu")
"""Kinds that can keep each feature active on a given share of the samples."""


@torch.library.custom_op("nonneg::snapshot", mutates_args=())
def _snapshot(x: Tensor) -> Tensor:
    """Copy a tensor, once: a compiler repeats copies of its own in the backward pass, when `x` may have changed."""
    return x.clone()


@_snapshot.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class NonNegative(nn.Module):
    """The rectifier σ₊ that ends a projector and makes its features non-negative.

    With a `share`, it becomes relu(x − t), where each feature has its own threshold t: in training, t rises while the
    feature is active on more than this share of the batch, and falls while it is active on less. No feature can die
    or be active everywhere, and the share decides the sparsity. Theory asks for this: with one latent class per
    sample, every feature of the optimum has the same energy, E[φ_j²] = 1, but nothing in a plain rectifier keeps
    training there. Put `Standardise` before it: thresholds move at a rate that suits features of variance 1.

    Args:
        kind: "relu", "rep_relu" (relu with the gradient of gelu), "softplus", "sigmoid", "exp" or "top_k" (relu, then
            only the `k` largest entries of each row). The controls "gelu" and "leaky_relu" serve for comparison:
            their output may be negative, and they issue a warning.
        k: the largest number of active features per row; required for "top_k", and only allowed there.
        share: the share of samples on which each feature is active, between 0 and 1; for "relu" and "rep_relu".
        features: number of features; required with a share.

    Attributes:
        threshold: `(features,)`, the thresholds, saved in the `state_dict`; only with a share.
        target: the share that thresholds aim at now, a scalar tensor; `target.fill_(0.5)` raises it for a while.
        group: the processes that share a batch, all with the same number of rows; None for this process alone.

    Shape:
        `(..., features)` to the same shape, in the same dtype.

    The kind is stored in the `state_dict`: loading weights that were trained with another kind is an error.

    Example:
        >>> projector = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), NonNegative("rep_relu"))
        >>> bool((projector(torch.randn(5, 8)) >= 0).all())
        True
    """

    threshold: Tensor
    target: Tensor

    def __init__(
        self, kind: str = "relu", k: int | None = None, share: float | None = None, features: int | None = None
    ) -> None:
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
        self.kind, self.k, self.share = kind, k, share
        self.group: dist.ProcessGroup | None = None
        if share is not None:
            self._check_share(features)
            # Where the threshold would be if features had a normal distribution.
            first = NormalDist().inv_cdf(1 - share)
            self.register_buffer("threshold", torch.full((features,), first))  # type: ignore[arg-type]
            self.register_buffer("target", torch.tensor(float(share)), persistent=False)
        elif features is not None:
            raise ValueError(f"NonNegative: features is {features} without a share, expected None")

    def _check_share(self, features: int | None) -> None:
        if self.kind not in WITH_SHARE:
            expected = " or ".join(WITH_SHARE)
            raise ValueError(f"NonNegative: share is {self.share} with kind {self.kind!r}, expected kind {expected}")
        if not isinstance(self.share, int | float) or not 0 < self.share < 1:
            raise ValueError(f"NonNegative: share is {self.share!r}, expected a number between 0 and 1")
        if type(features) is not int or features < 1:
            raise ValueError(f"NonNegative: features is {features!r} with a share, expected their number")

    @property
    def is_non_negative(self) -> bool:
        """Whether the output is never negative; False for the controls."""
        return self.kind not in CONTROLS

    def forward(self, x: Tensor) -> Tensor:
        if self.k is not None:
            return top_k(x, self.k)
        if self.share is None:
            return _MAPS[self.kind](x)
        if not self.training:
            return _MAPS[self.kind](x - self.threshold.to(x.dtype))
        # The update below changes the thresholds in place, and the gradient must use the old ones.
        y = _MAPS[self.kind](x - _snapshot(self.threshold).to(x.dtype))
        self._update_threshold(y.detach())
        return y

    def _update_threshold(self, y: Tensor) -> None:
        """Move each threshold by the share of rows on which its feature is active, minus the target.

        For features of variance 1, this closes about a tenth of the gap per step at a share of 5%.
        """
        rows = y.flatten(0, -2)
        count = len(rows) * (1 if self.group is None else self.group.size())
        active = total((rows > 0).sum(0, dtype=self.threshold.dtype), self.group) / count
        self.threshold.add_(active - self.target)

    def extra_repr(self) -> str:
        return self._label()

    def _label(self) -> str:
        number = self.k if self.share is None else self.share
        return self.kind if number is None else f"{self.kind}:{number}"

    def get_extra_state(self) -> Tensor:
        # Bytes in a tensor, because safetensors and `torch.load(weights_only=True)` accept nothing else.
        return torch.tensor(list(self._label().encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        saved = bytes(state.tolist()).decode()
        if saved != self._label():
            raise ValueError(f"the weights were saved under NonNegative {saved!r}, this module is {self._label()!r}")
