"""The kinds of corruption: operations on a batch, with separate random numbers for each image.

Images are `(batch, channels, height, width)` floats from 0 to 1; the caller clips the result to that range.
`numbers(n)` returns uniform random numbers `(batch, n)`, and lengths are in pixels. A comment says where an operation
differs from the one of the same name in ImageNet-C (Hendrycks & Dietterich, 2019).
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.modalities.images.views import grey

Numbers = Callable[[int], Tensor]
_FEW = 20.0  # up to this rate the Poisson quantile is exact, above it a normal expansion is as good
_MOST_OF_FEW = 64  # larger counts at that rate have a probability of 1e-13


def gaussian_noise(x: Tensor, numbers: Numbers, deviation: float) -> Tensor:
    """Add noise of the same standard deviation everywhere."""
    return x + deviation * _normal(x, numbers)


def shot_noise(x: Tensor, numbers: Numbers, photons: float) -> Tensor:
    """Draw photon counts, where white is `photons` on average."""
    return poisson(photons * x, numbers(x[0].numel()).view(x.shape)) / photons


def impulse_noise(x: Tensor, numbers: Numbers, share: float) -> Tensor:
    """Set this share of the values to black or white."""
    u = numbers(x[0].numel()).view(x.shape)
    return torch.where(u < share / 2, 0.0, torch.where(u > 1 - share / 2, 1.0, x))


def speckle_noise(x: Tensor, numbers: Numbers, deviation: float) -> Tensor:
    """Add noise in proportion to the brightness."""
    return x + deviation * x * _normal(x, numbers)


def gaussian_blur(x: Tensor, numbers: Numbers, sigma: float) -> Tensor:
    """Blur with a Gaussian of this standard deviation."""
    return _blurred(x, sigma)


def defocus_blur(x: Tensor, numbers: Numbers, radius: float, softness: float) -> Tensor:
    """Blur with a disc whose edge is softened by a Gaussian."""
    # Differs: edges are repeated, not mirrored, and the Gaussian is not cut off after a pixel or two.
    reach = math.floor(radius)
    ticks = torch.arange(-reach, reach + 1, device=x.device)
    disc = (ticks[:, None].square() + ticks.square() <= radius**2).to(x.dtype)
    planes = F.pad(x.flatten(0, 1)[:, None], (reach,) * 4, mode="replicate")
    return _blurred(F.conv2d(planes, (disc / disc.sum())[None, None]).view(x.shape), softness)


def motion_blur(x: Tensor, numbers: Numbers, sigma: float) -> Tensor:
    """Add a fading trail, at most 45 degrees from horizontal."""
    # Differs: points of the trail lie between pixels, and it ends at 2.7 standard deviations at every severity.
    return _trail(x, math.pi / 4 * (2 * numbers(1)[:, 0] - 1), sigma)


def zoom_blur(x: Tensor, numbers: Numbers, most: float) -> Tensor:
    """Average the image with zooms into its centre, the last by a factor of 1 + most."""
    # Differs: ten zooms at every severity.
    steps = 10
    return torch.stack([x, *(_zoomed(x, 1 + most * step / steps) for step in range(1, steps + 1))]).mean(0)


def fog(x: Tensor, numbers: Numbers, strength: float, decay: float) -> Tensor:
    """Add white clouds, darkened so that the maximum stays the same."""
    # Differs: clouds are sums of random grids; ImageNet-C displaces midpoints.
    brightest = x.amax((1, 2, 3), keepdim=True)
    return (x + strength * _clouds(x, numbers, decay)) * brightest / (brightest + strength)


def snow(
    x: Tensor, numbers: Numbers, mean: float, spread: float, size: float, least: float, sigma: float, kept: float
) -> Tensor:
    """Add falling flakes with a trail, and mix the image with a whitened copy of it."""
    # Differs: the trail is that of motion_blur above; flakes are mirrored at the edges.
    height, width = x.shape[2:]
    u = numbers(1 + height * width)
    flakes = _zoomed(mean + spread * torch.special.ndtri(u[:, 1:]).view(-1, 1, height, width), size)
    flakes = torch.where(flakes < least, 0.0, flakes).clamp(0, 1)
    flakes = _trail(flakes, -math.pi / 4 * (1 + 2 * u[:, 0]), sigma, edges="reflection")
    whitened = torch.maximum(x, 1.5 * grey(x) + 0.5)
    return kept * x + (1 - kept) * whitened + flakes + flakes.rot90(2, (2, 3))


def brightness(x: Tensor, numbers: Numbers, more: float) -> Tensor:
    """Raise the value and keep hue and saturation."""
    value = x.amax(1, keepdim=True)
    brighter = (value + more).clamp(max=1)
    return torch.where(value > 0, x * brighter / value.clamp(min=1e-6), brighter)


def contrast(x: Tensor, numbers: Numbers, kept: float) -> Tensor:
    """Keep only a share of each channel's differences from its mean."""
    mean = x.mean((2, 3), keepdim=True)
    return mean + kept * (x - mean)


def elastic(x: Tensor, numbers: Numbers, distance: float, smoothness: float) -> Tensor:
    """Move pixels by this root-mean-square distance, neighbouring pixels by similar vectors."""
    # Differs: ImageNet-C adds an affine map, and its displacement depends on the smoothness.
    batch, _, height, width = x.shape
    field = _blurred(2 * numbers(2 * height * width).view(batch, 2, height, width) - 1, smoothness)
    field = field * (distance / math.sqrt(2)) / field.square().mean((2, 3), keepdim=True).sqrt().clamp(min=1e-6)
    moved = torch.stack((field[:, 0] * (2 / width), field[:, 1] * (2 / height)), 3)
    return F.grid_sample(x, _grid(x) + moved, padding_mode="reflection", align_corners=False)


def pixelate(x: Tensor, numbers: Numbers, share: float) -> Tensor:
    """Reduce the resolution to this share of the pixels per side, at least by one pixel."""
    rows, columns = (_means_of_groups(side, max(1, min(int(share * side), side - 1)), x) for side in x.shape[2:])
    return rows @ x @ columns


def poisson(rate: Tensor, u: Tensor) -> Tensor:
    """Return the quantile `u` of the Poisson distribution with this rate; both have the same shape.

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
    """Blur with a Gaussian; edges are repeated."""
    reach = math.ceil(4 * sigma)
    kernel = torch.exp(torch.arange(-reach, reach + 1, device=x.device, dtype=x.dtype).square() / (-2 * sigma**2))
    kernel = kernel / kernel.sum()
    planes = F.pad(x.flatten(0, 1)[:, None], (reach,) * 4, mode="replicate")
    return F.conv2d(F.conv2d(planes, kernel.view(1, 1, -1, 1)), kernel.view(1, 1, 1, -1)).view(x.shape)


def _trail(x: Tensor, angle: Tensor, sigma: float, edges: str = "border") -> Tensor:
    """Add shifted copies along each image's angle `(batch,)`, with weights that fall like half a Gaussian."""
    height, width = x.shape[2:]
    # In grid coordinates a side has length 2, so that a pixel is 2 / side.
    onward = torch.stack((angle.cos() * (2 / width), angle.sin() * (2 / height)), 1)[:, None, None]
    grid, weights = _grid(x), [math.exp(-(step**2) / (2 * sigma**2)) for step in range(math.ceil(2.7 * sigma) + 1)]
    trail = x * weights[0]
    for step, weight in enumerate(weights[1:], 1):
        trail = trail + weight * F.grid_sample(x, grid - step * onward, padding_mode=edges, align_corners=False)
    return trail / sum(weights)


def _zoomed(x: Tensor, times: float) -> Tensor:
    """Magnify the centre of the image."""
    return F.grid_sample(x, _grid(x) / times, padding_mode="border", align_corners=False)


def _grid(x: Tensor) -> Tensor:
    """Return the x and y of each pixel, from −1 to 1, `(batch, height, width, 2)`."""
    y, x_ = (((torch.arange(side, device=x.device, dtype=x.dtype) + 0.5) * 2 / side - 1) for side in x.shape[2:])
    return torch.stack(torch.meshgrid(x_, y, indexing="xy"), 2).expand(len(x), -1, -1, -1)


def _means_of_groups(side: int, groups: int, like: Tensor) -> Tensor:
    """Return the matrix `(side, side)` that replaces each value of a line by the mean of its coarse pixel."""
    group = torch.arange(side, device=like.device).mul(2).add(1).mul(groups).div(2 * side, rounding_mode="floor")
    same = (group[:, None] == group).to(like.dtype)
    return same / same.sum(1, keepdim=True)


def _clouds(x: Tensor, numbers: Numbers, decay: float) -> Tensor:
    """Sum random grids, each twice as fine and `decay` times weaker, scaled to 0 to 1, `(batch, 1, height, width)`."""
    octaves = max(1, math.ceil(math.log2(max(x.shape[2:]))))
    sides = [2**octave + 1 for octave in range(octaves)]
    grids = numbers(sum(side**2 for side in sides)).split([side**2 for side in sides], 1)
    clouds = torch.zeros_like(x[:, :1])
    for octave, (side, grid) in enumerate(zip(sides, grids, strict=True)):
        fine = F.interpolate(grid.view(-1, 1, side, side), x.shape[2:], mode="bilinear", align_corners=True)
        clouds = clouds + fine / decay**octave
    least, most = clouds.amin((1, 2, 3), keepdim=True), clouds.amax((1, 2, 3), keepdim=True)
    return (clouds - least) / (most - least).clamp(min=1e-6)
