"""`TwoSided`: one encoder per side, each with a map into the space that both share."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nonneg.rectify import EPSILON, Standardise


class TwoSided(nn.Module):
    """Encodes the sides of pairs, or one of them alone.

    Both sides end in the same space, where each side has mean 0 and variance 1 in every direction: otherwise
    encoders of two kinds keep apart, and a feature would tell images from texts.

    Args:
        encoders: side to a module from its inputs to `(batch, its width)`.
        widths: side to the width of that module's output.
        width: width of the shared space.

    Shape: a dictionary from sides to inputs to `(rows, width)`: the rows of the first side, then those of the second.

    Example:
        >>> encoder = TwoSided({"image": nn.Flatten(), "text": nn.Identity()}, {"image": 12, "text": 5}, width=8)
        >>> encoder({"image": torch.rand(2, 3, 2, 2), "text": torch.rand(2, 5)}).shape
        torch.Size([4, 8])
        >>> encoder({"text": torch.rand(3, 5)}).shape
        torch.Size([3, 8])
    """

    def __init__(self, encoders: Mapping[str, nn.Module], widths: Mapping[str, int], width: int) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict(dict(encoders))
        self.maps = nn.ModuleDict(
            {side: nn.Sequential(nn.Linear(widths[side], width), Standardise(width)) for side in encoders}
        )

    def forward(self, inputs: Mapping[str, Any]) -> Tensor:
        sides = [side for side in self.encoders if side in inputs]
        return torch.cat([self.maps[side](self.encoders[side](inputs[side])) for side in sides])

    @torch.no_grad()
    def calibrated(self, side: str, h: Tensor) -> Tensor:
        """Give these outputs of a side mean 0 and variance 1, and so all later ones; return them as they are now.

        In training, the statistics follow random views, which can differ from the samples: a text with hidden words
        is shorter than the text.
        """
        standardise: Standardise = self.maps[side][-1]  # type: ignore[index]
        mean, variance = h.mean(0), h.var(0, correction=0)
        standardise.mean.add_(mean * (standardise.variance + EPSILON).sqrt())
        standardise.variance.copy_((standardise.variance + EPSILON) * variance - EPSILON).clamp_(min=0)
        return (h - mean) * variance.clamp(min=EPSILON).rsqrt()
