"""ResNet-18, -34 and -50 with torchvision's weight names, and with stems for small images."""

from typing import Literal, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.modalities.images.encoders.norm import normed

Stem = Literal["standard", "medium", "small", "small_pad_2"]
STEMS: tuple[Stem, ...] = get_args(Stem)


class _BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = _downsample(inputs, planes, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = normed(self.bn1, self.conv1(x), relu=True)
        out = normed(self.bn2, self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)  # type: ignore[no-any-return]


class _Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        # The stride is on the 3x3 convolution, as in torchvision ("v1.5"), not on the first one.
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, planes * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _downsample(inputs, planes * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = normed(self.bn1, self.conv1(x), relu=True)
        out = normed(self.bn2, self.conv2(out), relu=True)
        out = normed(self.bn3, self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)  # type: ignore[no-any-return]


class _Downsample(nn.Sequential):
    """A 1x1 convolution with a stride, and a norm.

    The pixels that the stride keeps are copied first and then convolved without a stride. The result is the same, and
    on a GPU the gradients of a strided convolution are slow.
    """

    def forward(self, x: Tensor) -> Tensor:
        convolution, norm = self
        assert isinstance(convolution, nn.Conv2d)
        down, across = convolution.stride
        return normed(norm, F.conv2d(x[:, :, ::down, ::across].clone(), convolution.weight))


def _downsample(inputs: int, outputs: int, stride: int) -> _Downsample | None:
    """Return the layer that brings the shortcut to the block's output shape, or None if it has that shape."""
    if stride == 1 and inputs == outputs:
        return None
    return _Downsample(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


_BLOCKS: dict[int, tuple[type[_BasicBlock] | type[_Bottleneck], tuple[int, ...]]] = {
    18: (_BasicBlock, (2, 2, 2, 2)),
    34: (_BasicBlock, (3, 4, 6, 3)),
    50: (_Bottleneck, (3, 4, 6, 3)),
}


class ResNet(nn.Module):
    """A residual network without its classifier.

    Weights have the same names as in torchvision (`conv1`, `bn1`, `layer1.0.conv1`, …), so that its checkpoints can be
    loaded without `fc`.

    Args:
        depth: 18, 34 or 50.
        channels: number of channels of the images.
        stem: "standard" is a 7x7 convolution of stride 2 and a max-pool, for about 224 pixels per side; "medium" is
            a 3x3 convolution of stride 2 without max-pool, for about 64 to 96 pixels; "small" is the same without the
            stride, for about 32 pixels; "small_pad_2" is "small" with padding 2, which makes feature maps two pixels
            larger per side.

    Shape: `(batch, channels, height, width)` to `(batch, 512)`, or `(batch, 2048)` for depth 50.

    Example:
        >>> import torch
        >>> ResNet(18, channels=3, stem="small")(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 512])
    """

    def __init__(self, depth: int, channels: int = 3, stem: Stem = "standard") -> None:
        super().__init__()
        if depth not in _BLOCKS:
            raise InputError(f"depth is {depth!r}, expected one of {', '.join(map(str, _BLOCKS))}")
        if stem not in STEMS:
            raise InputError(f"stem is {stem!r}, expected one of {', '.join(STEMS)}")
        block, repeats = _BLOCKS[depth]
        self.width = 512 * block.expansion
        if stem == "standard":
            self.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        else:
            stride, padding = 2 if stem == "medium" else 1, 2 if stem == "small_pad_2" else 1
            self.conv1 = nn.Conv2d(channels, 64, 3, stride=stride, padding=padding, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if stem == "standard" else nn.Identity()
        inputs, stages = 64, []
        for i, count in enumerate(repeats):
            planes = 64 * 2**i
            blocks = []
            for j in range(count):
                blocks.append(block(inputs, planes, stride=2 if i > 0 and j == 0 else 1))
                inputs = planes * block.expansion
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(normed(self.bn1, self.conv1(x), relu=True))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.avgpool(x).flatten(1)  # type: ignore[no-any-return]
