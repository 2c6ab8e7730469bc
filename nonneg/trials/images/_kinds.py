"""What can befall a picture: operations on a batch, with random numbers of its own for each image.

Images are `(batch, channels, height, width)` floats in 0 to 1; what comes out is yet to be clipped to
that. `numbers(n)` gives `(batch, n)` uniform numbers, and lengths are in pixels. A comment says where
an operation differs from the one of the same name in ImageNet-C (Hendrycks & Dietterich, 2019).
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Numbers = Callable[[int], Tensor]
_LUMA = (0.299, 0.587, 0.114)
_FEW = 20.0  # up to this rate Poisson numbers are counted, above it the normal expansion is as good
_MOST_OF_FEW = 64  # no count at that rate is larger, but once in 10^13


def gaussian_noise(x: Tensor, numbers: Numbers, deviation: float) -> Tensor:
    """The same spread everywhere."""
    return x + deviation * _normal(x, numbers)


def shot_noise(x: Tensor, numbers: Numbers, photons: float) -> Tensor:
    """Counts of light: white is so many photons on average."""
    return poisson(photons * x, numbers(x[0].numel()).view(x.shape)) / photons


def impulse_noise(x: Tensor, numbers: Numbers, share: float) -> Tensor:
    """This share of the values black or white."""
    u = numbers(x[0].numel()).view(x.shape)
    return torch.where(u < share / 2, 0.0, torch.where(u > 1 - share / 2, 1.0, x))


def speckle_noise(x: Tensor, numbers: Numbers, deviation: float) -> Tensor:
    """A spread in proportion to the brightness."""
    return x + deviation * x * _normal(x, numbers)


def gaussian_blur(x: Tensor, numbers: Numbers, sigma: float) -> Tensor:
    """A bell of this deviation."""
    return _blurred(x, sigma)


def defocus_blur(x: Tensor, numbers: Numbers, radius: float, softness: float) -> Tensor:
    """A disc, its rim softened by a bell."""
    # Differs: edges are repeated, not mirrored, and the bell is not cut off after a pixel or two.
    reach = math.floor(radius)
    ticks = torch.arange(-reach, reach + 1, device=x.device)
    disc = (ticks[:, None].square() + ticks.square() <= radius**2).to(x.dtype)
    planes = F.pad(x.flatten(0, 1)[:, None], (reach,) * 4, mode="replicate")
    return _blurred(F.conv2d(planes, (disc / disc.sum())[None, None]).view(x.shape), softness)


def motion_blur(x: Tensor, numbers: Numbers, sigma: float) -> Tensor:
    """A fading trail, at most 45 degrees from level."""
    # Differs: points of the trail lie between pixels, and it ends at 2.7 deviations, whatever the severity.
    return _trail(x, math.pi / 4 * (2 * numbers(1)[:, 0] - 1), sigma)


def zoom_blur(x: Tensor, numbers: Numbers, most: float) -> Tensor:
    """The mean of the image and of zooms into its middle, the last by 1 + most."""
    # Differs: ten zooms, whatever the severity.
    steps = 10
    return torch.stack([x, *(_zoomed(x, 1 + most * step / steps) for step in range(1, steps + 1))]).mean(0)


def fog(x: Tensor, numbers: Numbers, strength: float, decay: float) -> Tensor:
    """White clouds, darkened so that the brightest point stays as bright as it was."""
    # Differs: clouds are sums of random grids, where the namesake displaces midpoints.
    brightest = x.amax((1, 2, 3), keepdim=True)
    return (x + strength * _clouds(x, numbers, decay)) * brightest / (brightest + strength)


def snow(
    x: Tensor, numbers: Numbers, mean: float, spread: float, size: float, least: float, sigma: float, kept: float
) -> Tensor:
    """Flakes that fall with a trail, over a picture of which only a share is kept and the rest whitened."""
    # Differs: the trail is that of motion_blur above; beyond an edge there are the same flakes again.
    height, width = x.shape[2:]
    u = numbers(1 + height * width)
    flakes = _zoomed(mean + spread * torch.special.ndtri(u[:, 1:]).view(-1, 1, height, width), size)
    flakes = torch.where(flakes < least, 0.0, flakes).clamp(0, 1)
    flakes = _trail(flakes, -math.pi / 4 * (1 + 2 * u[:, 0]), sigma, edges="reflection")
    whitened = torch.maximum(x, 1.5 * luma(x) + 0.5)
    return kept * x + (1 - kept) * whitened + flakes + flakes.rot90(2, (2, 3))


def brightness(x: Tensor, numbers: Numbers, more: float) -> Tensor:
    """More value, with hue and saturation as they were."""
    value = x.amax(1, keepdim=True)
    brighter = (value + more).clamp(max=1)
    return torch.where(value > 0, x * brighter / value.clamp(min=1e-6), brighter)


def contrast(x: Tensor, numbers: Numbers, kept: float) -> Tensor:
    """Only a share of each channel's differences to its mean."""
    mean = x.mean((2, 3), keepdim=True)
    return mean + kept * (x - mean)


def elastic(x: Tensor, numbers: Numbers, distance: float, smoothness: float) -> Tensor:
    """Every pixel moved, by this distance in the root mean square, neighbours alike."""
    # Differs: the namesake adds an affine map, and its displacement follows from how smooth it is.
    batch, _, height, width = x.shape
    field = _blurred(2 * numbers(2 * height * width).view(batch, 2, height, width) - 1, smoothness)
    field = field * (distance / math.sqrt(2)) / field.square().mean((2, 3), keepdim=True).sqrt().clamp(min=1e-6)
    moved = torch.stack((field[:, 0] * (2 / width), field[:, 1] * (2 / height)), 3)
    return F.grid_sample(x, _grid(x) + moved, padding_mode="reflection", align_corners=False)


def pixelate(x: Tensor, numbers: Numbers, share: float) -> Tensor:
    """As if taken with this share of the pixels a side, and at least one fewer."""
    rows, columns = (_means_of_groups(side, max(1, min(int(share * side), side - 1)), x) for side in x.shape[2:])
    return rows @ x @ columns


def luma(x: Tensor) -> Tensor:
    """`(batch, 1, height, width)`: brightness as people see it."""
    if x.shape[1] == 1:
        return x
    red, green, blue = x.split(1, 1)
    mixed: Tensor = _LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue
    return mixed


def poisson(rate: Tensor, u: Tensor) -> Tensor:
    """The count below which a share `u` of the Poisson numbers of this rate lies, both of one shape.

    Example:
        >>> poisson(torch.tensor([0.0, 2.0, 100.0]), torch.tensor([0.9, 0.5, 0.5]))
        tensor([  0.,   2., 100.])
    """
    few = rate.clamp(max=_FEW)
    chance = torch.exp(-few)
    reached = chance.clone()
    count = torch.zeros_like(rate)
    for i in range(1, _MOST_OF_FEW):
        count += u > reached
        chance = chance * few / i
        reached += chance
    z = torch.special.ndtri(u)
    root = rate.clamp(min=_FEW).sqrt()
    many = (rate + root * z + (z.square() - 1) / 6 + (z - z**3) / (72 * root) - 0.5).ceil().clamp(min=0)
    return torch.where(rate <= _FEW, count, many)


def _normal(x: Tensor, numbers: Numbers) -> Tensor:
    normal: Tensor = torch.special.ndtri(numbers(x[0].numel())).view(x.shape)
    return normal


def _blurred(x: Tensor, sigma: float) -> Tensor:
    """Edges are repeated."""
    reach = math.ceil(4 * sigma)
    bell = torch.exp(torch.arange(-reach, reach + 1, device=x.device, dtype=x.dtype).square() / (-2 * sigma**2))
    bell = bell / bell.sum()
    planes = F.pad(x.flatten(0, 1)[:, None], (reach,) * 4, mode="replicate")
    return F.conv2d(F.conv2d(planes, bell.view(1, 1, -1, 1)), bell.view(1, 1, 1, -1)).view(x.shape)


def _trail(x: Tensor, angle: Tensor, sigma: float, edges: str = "border") -> Tensor:
    """The image and copies of it further and further along each one's angle, `(batch,)`, fading like half a bell."""
    height, width = x.shape[2:]
    # A pixel further is two over the side: a whole side is 2.
    onward = torch.stack((angle.cos() * (2 / width), angle.sin() * (2 / height)), 1)[:, None, None]
    grid, weights = _grid(x), [math.exp(-(step**2) / (2 * sigma**2)) for step in range(math.ceil(2.7 * sigma) + 1)]
    trail = x * weights[0]
    for step, weight in enumerate(weights[1:], 1):
        trail = trail + weight * F.grid_sample(x, grid - step * onward, padding_mode=edges, align_corners=False)
    return trail / sum(weights)


def _zoomed(x: Tensor, times: float) -> Tensor:
    """The middle of the image, so many times as large."""
    return F.grid_sample(x, _grid(x) / times, padding_mode="border", align_corners=False)


def _grid(x: Tensor) -> Tensor:
    """`(batch, height, width, 2)`: where each pixel is, x and y from −1 to 1."""
    y, x_ = (((torch.arange(side, device=x.device, dtype=x.dtype) + 0.5) * 2 / side - 1) for side in x.shape[2:])
    return torch.stack(torch.meshgrid(x_, y, indexing="xy"), 2).expand(len(x), -1, -1, -1)


def _means_of_groups(side: int, groups: int, like: Tensor) -> Tensor:
    """`(side, side)`, symmetric: takes each value of a line to the mean of those nearest to the same coarse pixel."""
    group = torch.arange(side, device=like.device).mul(2).add(1).mul(groups).div(2 * side, rounding_mode="floor")
    same = (group[:, None] == group).to(like.dtype)
    return same / same.sum(1, keepdim=True)


def _clouds(x: Tensor, numbers: Numbers, decay: float) -> Tensor:
    """`(batch, 1, height, width)` from 0 to 1: random grids, each twice as fine and `decay` times fainter."""
    octaves = max(1, math.ceil(math.log2(max(x.shape[2:]))))
    sides = [2**octave + 1 for octave in range(octaves)]
    grids = numbers(sum(side**2 for side in sides)).split([side**2 for side in sides], 1)
    clouds = torch.zeros_like(x[:, :1])
    for octave, (side, grid) in enumerate(zip(sides, grids, strict=True)):
        fine = F.interpolate(grid.view(-1, 1, side, side), x.shape[2:], mode="bilinear", align_corners=True)
        clouds = clouds + fine / decay**octave
    least, most = clouds.amin((1, 2, 3), keepdim=True), clouds.amax((1, 2, 3), keepdim=True)
    return (clouds - least) / (most - least).clamp(min=1e-6)
