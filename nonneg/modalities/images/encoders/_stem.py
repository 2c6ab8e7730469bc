"""The first convolution of networks for small images."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FewChannels(nn.Conv2d):
    """A convolution of stride 1 over the few channels of an image.

    Compiled for a GPU it is a matrix product over patches. cuDNN's kernels want channels by eights: over three it
    takes longer than over 64.
    """

    def forward(self, x: Tensor) -> Tensor:
        if is_compiled_for_gpu(x) and not x.requires_grad:
            return by_patches(x, self.weight, int(self.padding[0]))
        return super().forward(x)


def is_compiled_for_gpu(x: Tensor) -> bool:
    """Whether what runs now is being compiled to run here, so that it may use operations of our own."""
    # What is exported may run where nonneg, and so its operations, are not. In torch 2.11, is_exporting() is true in
    # all that is compiled; the flag behind it is not. Were it gone one day, nothing of our own would be used.
    exports = getattr(torch.compiler, "_is_exporting_flag", True)
    return x.is_cuda and torch.compiler.is_compiling() and not exports


def by_patches(x: Tensor, weight: Tensor, padding: int) -> Tensor:
    """What `conv2d` gives for images that need no gradient, with stride 1 and no bias.

    Shape: `(batch, channels, height, width)` and `(outputs, channels, side, side)` to
    `(batch, outputs, height + 2 * padding - side + 1, …)`, channels last in memory.

    Example:
        >>> x, weight = torch.randn(2, 3, 8, 8), torch.randn(64, 3, 3, 3)
        >>> torch.allclose(by_patches(x, weight, 1), F.conv2d(x, weight, padding=1), atol=1e-4)
        True
    """
    side = weight.shape[2]
    framed: Tensor = torch.ops.nonneg.framed(x, padding)
    patches = framed.unfold(1, side, 1).unfold(2, side, 1).permute(0, 1, 2, 4, 5, 3).flatten(3)
    missing = -patches.shape[3] % 8  # to the eights that matrix units take
    rows = F.pad(weight.permute(0, 2, 3, 1).flatten(1), (0, missing))
    return F.linear(F.pad(patches, (0, missing)), rows).permute(0, 3, 1, 2)


@torch.library.custom_op("nonneg::framed", mutates_args=())
def _framed(x: Tensor, padding: int) -> Tensor:
    """Channels last, with a frame of zeros: `(batch, height + 2 * padding, width + 2 * padding, channels)`.

    An operation of our own is one that the compiler cannot look into. Otherwise it would make each pixel of the views
    anew for each of the nine patches that the pixel is in.
    """
    return F.pad(x.permute(0, 2, 3, 1), (0, 0, *[padding] * 4)).contiguous()


@_framed.register_fake
def _(x: Tensor, padding: int) -> Tensor:
    batch, channels, height, width = x.shape
    return x.new_empty(batch, height + 2 * padding, width + 2 * padding, channels)
