"""Encoders by name: image batch to one vector a sample."""

import itertools
from collections.abc import Callable

from torch import Tensor, nn

from nonneg.errors import InputError


class ConvNet(nn.Module):
    """Three convolutions for very small images; 0.1 million parameters.

    Shape: `(batch, channels, height, width)` to `(batch, 128)`.
    """

    width = 128

    def __init__(self, channels: int) -> None:
        super().__init__()
        sizes = (channels, 32, 64, self.width)
        self.layers = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(a, b, 3, stride=1 if i == 0 else 2, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()
                )
                for i, (a, b) in enumerate(itertools.pairwise(sizes))
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x).flatten(2).mean(2)
        return out


ENCODERS: dict[str, Callable[[int], nn.Module]] = {"convnet": ConvNet}


def encoder(name: str, channels: int) -> tuple[nn.Module, int]:
    """The encoder and the width of its output."""
    if name not in ENCODERS:
        raise InputError(f"encoder is {name!r}, expected one of {', '.join(ENCODERS)}")
    module = ENCODERS[name](channels)
    return module, int(module.width)  # type: ignore[arg-type]
