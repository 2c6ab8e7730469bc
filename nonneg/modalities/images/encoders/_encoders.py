"""Encoders by name, from a batch of images to one vector per image."""

import itertools
from collections.abc import Callable

from torch import Tensor, nn

from nonneg.modalities.images.encoders._resnet import ResNet, Stem


class ConvNet(nn.Module):
    """Three convolutions for very small images; 0.1 million parameters.

    Shape: `(batch, channels, height, width)` to `(batch, 512)`: 128 channels in each quarter of the image, which
    preserves coarse positions.
    """

    width = 512

    def __init__(self, channels: int, stem_stride: int) -> None:
        super().__init__()
        sizes, strides = (channels, 32, 64, 128), (stem_stride, 2, 2)
        self.layers = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(a, b, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
                for (a, b), stride in zip(itertools.pairwise(sizes), strides, strict=True)
            ),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


# Functions of the image's channels and the stem.
ENCODERS: dict[str, Callable[[int, Stem], ConvNet | ResNet]] = {
    "convnet_8": lambda channels, stem: ConvNet(channels, stem_stride=1),  # for sides of 8 to 16 pixels
    "convnet_24": lambda channels, stem: ConvNet(channels, stem_stride=2),  # for sides of 16 to 32 pixels
    "resnet18": lambda channels, stem: ResNet(18, channels, stem),
    "resnet34": lambda channels, stem: ResNet(34, channels, stem),
    "resnet50": lambda channels, stem: ResNet(50, channels, stem),
}
"""Encoders of images, by name: functions of the number of channels and the stem."""
