"""The operations that views are made of, on a batch of images with separate parameters for each image.

Images are `(views, channels, height, width)` floats from 0 to 1, parameters `(views,)`. Given the same parameters,
each operation agrees with Pillow's, except for Pillow's rounding to 8 bits.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.modalities.images.views._draw import Drawn

_GREY = (0.299, 0.587, 0.114)
_BICUBIC = -0.5  # the curvature of Pillow's bicubic filter
_HUE_STEPS = 255 / 6  # steps of Pillow's hue in a sixth of the colour circle


def crop_and_flip(x: Tensor, drawn: Drawn, height: int, width: int) -> Tensor:
    """Cut out each image's box, resize it to height x width with Pillow's bicubic filter, and mirror it if drawn."""
    rows = _resampling(drawn.top, drawn.height, height, x.shape[2])
    columns = _resampling(drawn.left, drawn.width, width, x.shape[3])
    columns = torch.where(drawn.flip[:, None, None], columns.flip(1), columns)
    # Pillow rounds to 8 bits between the two directions and clips after them; only the clipping is visible.
    return _both_ways(x, rows, columns).clamp(0, 1)


def resize(x: Tensor, height: int, width: int, centre: float = 1.0) -> Tensor:
    """Resize images until they cover height x width, and cut out the centre, as Pillow's bicubic filter does.

    Args:
        x: `(batch, channels, …, …)` floats from 0 to 255.
        height, width: of the result.
        centre: share of the sides to keep; the rest is cut off as well.

    Example:
        >>> resize(255 * torch.rand(2, 3, 48, 64), 32, 32).shape
        torch.Size([2, 3, 32, 32])
    """
    scale = centre * min(x.shape[2] / height, x.shape[3] / width)
    if scale == 1:  # a plain crop, exact
        top, left = ((side - size) // 2 for side, size in zip(x.shape[2:], (height, width), strict=True))
        return x[:, :, top : top + height, left : left + width]
    matrices = []
    for side, size in zip(x.shape[2:], (height, width), strict=True):
        whole = max(size, round(side / scale))  # the side of the resized image before its centre is cut out
        start, length = (whole - size) // 2 * side / whole, size * side / whole
        box = torch.tensor([[start], [length]], device=x.device)
        matrices.append(_resampling(box[0], box[1], size, side, crop=False).to(x.dtype))
    return _both_ways(x, *matrices).clamp(0, 255)


def flip(x: Tensor, flips: Tensor) -> Tensor:
    """Mirror the images where `flips` is true."""
    return torch.where(_wide(flips), x.flip(3), x)


def _both_ways(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Apply two matrices to each image: one from its rows to new rows, one from its columns to new columns.

    Every output pixel of these separable operations is a weighted sum over a few inputs. With dense matrices they are
    two batched products, which a GPU does faster than gathering. Channels are placed between rows and columns, so
    that one product handles all of them.
    """
    count, channels, height, width = x.shape
    x = rows @ x.permute(0, 2, 1, 3).reshape(count, height, channels * width)
    x = x.reshape(count, rows.shape[1] * channels, width) @ columns.mT
    return x.view(count, rows.shape[1], channels, columns.shape[1]).permute(0, 2, 1, 3)


def _resampling(start: Tensor, length: Tensor, size: int, available: int, crop: bool = True) -> Tensor:
    """Return the weights `(views, size, available)` by which Pillow resizes `length` pixels from `start` on to `size`.

    With `crop`, pixels outside that box do not contribute at its edges.
    """
    scale = length / size
    reach = scale.clamp(min=1)  # when shrinking, the filter widens so that no pixel is skipped
    pixel = torch.arange(available, device=start.device)
    centre = (torch.arange(size, device=start.device) + 0.5) * scale[:, None]
    distance = ((pixel + 0.5 - start[:, None])[:, None, :] - centre[:, :, None]) / reach[:, None, None]
    weights = _bicubic(distance.abs())
    if crop:
        weights = weights * ((pixel >= start[:, None]) & (pixel < (start + length)[:, None]))[:, None, :]
    return weights / weights.sum(2, keepdim=True)


def _bicubic(t: Tensor) -> Tensor:
    a = _BICUBIC
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((t - 5) * t + 8) * a * t - 4 * a
    return torch.where(t < 1, near, torch.where(t < 2, far, 0.0))


def jitter(x: Tensor, drawn: Drawn, names: tuple[str, ...]) -> Tensor:
    """Change brightness, contrast, saturation and hue (those named), in a separate order for each image."""
    operations: dict[str, Callable[[Tensor], Tensor]] = {
        "brightness": lambda x: x * _wide(drawn.brightness),
        "contrast": lambda x: _blend(grey(x).mean((2, 3), keepdim=True), x, drawn.contrast),
        "saturation": lambda x: _blend(grey(x), x, drawn.saturation),
        "hue": lambda x: turn_hue(x, drawn.hue),
    }
    if len(names) == 1:
        return operations[names[0]](x).clamp(0, 1)
    position = list(operations)
    # Column by column: a list of numbers would be copied from the host, which a recorded step must not wait for.
    ranks = torch.stack([drawn.rank[:, position.index(name)] for name in names], 1)
    # The order among the named ones only.
    turns = (ranks[:, :, None] > ranks[:, None, :]).sum(2)
    for turn in range(len(names)):
        after = x
        for i, name in enumerate(names):
            after = torch.where(_wide(turns[:, i] == turn), operations[name](x), after)
        x = after.clamp(0, 1)
    return x


def grey(x: Tensor) -> Tensor:
    """Return the perceived brightness, `(views, 1, height, width)`."""
    if x.shape[1] == 1:
        return x
    red, green, blue = x.split(1, 1)
    mixed: Tensor = _GREY[0] * red + _GREY[1] * green + _GREY[2] * blue
    return mixed


def _blend(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    return a + (b - a) * _wide(share)


def turn_hue(x: Tensor, turns: Tensor) -> Tensor:
    """Shift the hue by a share of the colour circle; saturation and value stay the same."""
    red, green, blue = x.split(1, 1)
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    safe = torch.where(chroma > 0, chroma, 1.0)
    # In sixths of the circle: red is 0, green 2, blue 4.
    hue = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, (blue - red) / safe + 2, (red - green) / safe + 4),
    )
    # In Pillow a hue is one of 256 steps, 255 of which make the circle; 1e-4 protects values that lie on a step.
    step = (torch.remainder(hue, 6.0) * _HUE_STEPS + 1e-4).floor() + torch.trunc(255 * _wide(turns))
    hue = torch.remainder(step, 256.0) / _HUE_STEPS

    def channel(offset: int) -> Tensor:
        place = torch.remainder(hue + offset, 6.0)
        return value - chroma * torch.minimum(place, 4 - place).clamp(0, 1)

    return torch.cat((channel(5), channel(3), channel(1)), 1)


def blur(x: Tensor, sigma: Tensor, most: float) -> Tensor:
    """Blur with a Gaussian, by three box blurs as in Pillow; edges are repeated. `most` is the largest sigma."""
    rows, columns = (_box(sigma, most, size) for size in x.shape[2:])
    return _both_ways(x, rows @ rows @ rows, columns @ columns @ columns)


def _box(sigma: Tensor, most: float, size: int) -> Tensor:
    """Return the weights `(views, size, size)` of one box blur with a third of the variance; edges are repeated."""
    third = sigma.square() / 3
    whole = ((12 * third + 1).sqrt() / 2 - 0.5).floor()  # pixels on either side that count fully
    part = (2 * whole + 1) * (whole * (whole + 1) - 3 * third) / (6 * (third - (whole + 1).square()))
    full = 1 / (2 * (whole + part) + 1)
    edge = (1 - (2 * whole + 1) * full) / 2
    reach = math.floor(math.sqrt(4 * most**2 + 1) / 2 - 0.5) + 1
    pixel = torch.arange(-reach, size + reach, device=sigma.device)
    distance = (pixel - torch.arange(size, device=sigma.device)[:, None]).abs()
    whole, full, edge = (values[:, None, None] for values in (whole, full, edge))
    weights = torch.where(distance <= whole, full, torch.where(distance == whole + 1, edge, 0.0))
    onto = pixel.clamp(0, size - 1)[:, None] == torch.arange(size, device=sigma.device)
    return weights @ onto.to(weights.dtype)


def solarise(x: Tensor, solarised: Tensor) -> Tensor:
    """Invert values of one half and more, where `solarised` is true."""
    return torch.where(_wide(solarised) & (x >= 128 / 255), 1 - x, x)


def affine(x: Tensor, drawn: Drawn) -> Tensor:
    """Shear, rotate and scale about the centre, then shift by a share of the side; edges are repeated."""
    height, width = x.shape[-2:]
    cos, sin, slant = drawn.angle.cos() / drawn.size, drawn.angle.sin() / drawn.size, drawn.shear.tan()
    # affine_grid takes the map from output to input positions, the inverse of the drawn one, in units of half a side:
    # a shift by a whole side is 2, and a rotation of an oblong image needs its aspect ratio.
    xx, xy = cos - sin * slant, (sin + cos * slant) * (height / width)
    yx, yy = -sin * (width / height), cos
    tx, ty = 2 * drawn.shift_x, 2 * drawn.shift_y
    top = torch.stack((xx, xy, -xx * tx - xy * ty), 1)
    bottom = torch.stack((yx, yy, -yx * tx - yy * ty), 1)
    grid = F.affine_grid(torch.stack((top, bottom), 1), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _wide(parameter: Tensor) -> Tensor:
    """Reshape `(views,)` so that it broadcasts over a batch of images."""
    return parameter[:, None, None, None]
