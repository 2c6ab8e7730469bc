"""The sums of batch norm on a GPU. `x` is a matrix of one row per pixel and one column per channel.

Each program sums some rows of at most 64 channels; a second kernel sums over the programs, eight channels at a time,
and computes the result.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# The fastest values of those tried on an H200, for 512 views of 32 x 32 pixels and more.
_CHANNELS = 64  # per program: a row of them in bf16 fills a cache line
_ROWS = 64  # read by a program at a time
_PROGRAMS = 4  # per multiprocessor
_MOMENTS_WARPS, _SLOPES_WARPS, _END_WARPS = 8, 4, 8
_END_CHANNELS = 8


@triton.jit
def _moments(
    x,
    sums,
    rows,
    channels: tl.constexpr,
    width: tl.constexpr,
    step: tl.constexpr,
    whole: tl.constexpr,
):
    c = tl.program_id(1) * width + tl.arange(0, width)
    r = tl.arange(0, step)[:, None]
    within = r * channels + c[None, :]
    # Sums are taken about the batch's own first row: squares about 0 lose all digits where the mean is large.
    centre = tl.load(x + c).to(tl.float32)[None, :]
    first = tl.zeros((step, width), tl.float32)
    second = tl.zeros((step, width), tl.float32)
    for start in range(tl.program_id(0) * step, rows, tl.num_programs(0) * step):
        here = x + tl.cast(start, tl.int64) * channels + within
        if whole:
            value = tl.load(here).to(tl.float32) - centre
        else:
            there = r < rows - start
            value = tl.where(there, tl.load(here, mask=there, other=0.0).to(tl.float32) - centre, 0.0)
        first += value
        second += value * value
    mine = sums + tl.program_id(0) * 2 * channels + c
    tl.store(mine, tl.sum(first, 0))
    tl.store(mine + channels, tl.sum(second, 0))


@triton.jit
def _slopes(
    x,
    slope,
    scaling,
    sums,
    rows,
    relu: tl.constexpr,
    channels: tl.constexpr,
    width: tl.constexpr,
    step: tl.constexpr,
    whole: tl.constexpr,
):
    c = tl.program_id(1) * width + tl.arange(0, width)
    r = tl.arange(0, step)[:, None]
    within = r * channels + c[None, :]
    scale = tl.load(scaling + c)[None, :]
    shift = tl.load(scaling + channels + c)[None, :]
    mean = tl.load(scaling + 2 * channels + c)[None, :]
    first = tl.zeros((step, width), tl.float32)
    second = tl.zeros((step, width), tl.float32)
    for start in range(tl.program_id(0) * step, rows, tl.num_programs(0) * step):
        here = tl.cast(start, tl.int64) * channels + within
        if whole:
            value = tl.load(x + here).to(tl.float32)
            s = tl.load(slope + here).to(tl.float32)
        else:
            there = r < rows - start
            value = tl.load(x + here, mask=there, other=0.0).to(tl.float32)
            s = tl.load(slope + here, mask=there, other=0.0).to(tl.float32)
        if relu:
            s = tl.where(value * scale + shift > 0, s, 0.0)
        first += s
        second += s * (value - mean)
    mine = sums + tl.program_id(0) * 2 * channels + c
    tl.store(mine, tl.sum(first, 0))
    tl.store(mine + channels, tl.sum(second, 0))


@triton.jit
def _total(sums, programs, c, channels: tl.constexpr, step: tl.constexpr):
    r = tl.arange(0, step)[:, None]
    here = sums + r * 2 * channels + c[None, :]
    first = tl.load(here, mask=r < programs, other=0.0)
    second = tl.load(here + channels, mask=r < programs, other=0.0)
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit
def _moments_end(
    x,
    sums,
    programs,
    weight,
    bias,
    running_mean,
    running_var,
    tracked,
    scaling,
    rows,
    momentum,
    eps,
    channels: tl.constexpr,
    width: tl.constexpr,
    step: tl.constexpr,
):
    c = tl.program_id(0) * width + tl.arange(0, width)
    first, second = _total(sums, programs, c, channels, step)
    off = first / rows
    mean = tl.load(x + c).to(tl.float32) + off
    var = tl.maximum(second / rows - off * off, 0.0)
    inverse = tl.rsqrt(var + eps)
    scale = tl.load(weight + c) * inverse
    tl.store(scaling + c, scale)
    tl.store(scaling + channels + c, tl.load(bias + c) - mean * scale)
    tl.store(scaling + 2 * channels + c, mean)
    tl.store(scaling + 3 * channels + c, inverse)
    before = tl.load(running_mean + c)
    tl.store(running_mean + c, before + momentum * (mean - before))
    before = tl.load(running_var + c)
    tl.store(running_var + c, before + momentum * (var * (rows / (rows - 1.0)) - before))
    if tl.program_id(0) == 0:
        tl.store(tracked, tl.load(tracked) + 1)


@triton.jit
def _slopes_end(
    sums,
    programs,
    scaling,
    slopes,
    rows,
    channels: tl.constexpr,
    width: tl.constexpr,
    step: tl.constexpr,
):
    c = tl.program_id(0) * width + tl.arange(0, width)
    of_bias, second = _total(sums, programs, c, channels, step)
    scale = tl.load(scaling + c)
    mean = tl.load(scaling + 2 * channels + c)
    inverse = tl.load(scaling + 3 * channels + c)
    of_weight = second * inverse
    of_x = -scale * inverse * of_weight / rows
    tl.store(slopes + c, of_x)
    tl.store(slopes + channels + c, -scale * of_bias / rows - of_x * mean)
    tl.store(slopes + 2 * channels + c, of_weight)
    tl.store(slopes + 3 * channels + c, of_bias)


def moments(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    tracked: Tensor,
    momentum: float,
    eps: float,
) -> Tensor:
    """Compute `nonneg::moments`."""
    x = x.contiguous(memory_format=torch.channels_last)
    plan = _Plan(x)
    scaling = torch.empty(4, plan.channels, device=x.device)
    running = (running_mean, running_var, tracked)
    with torch.cuda.device_of(x):
        _moments[plan.grid](x, plan.sums, plan.rows, **plan.sizes, num_warps=_MOMENTS_WARPS)
        _moments_end[plan.end_grid](
            x, plan.sums, plan.grid[0], weight, bias, *running, scaling, plan.rows, momentum, eps, **plan.end_sizes
        )
    return scaling


def slopes(x: Tensor, slope: Tensor, scaling: Tensor, relu: bool) -> Tensor:
    """Compute `nonneg::slopes`."""
    x = x.contiguous(memory_format=torch.channels_last)
    slope = slope.contiguous(memory_format=torch.channels_last)
    plan = _Plan(x)
    result = torch.empty_like(scaling)
    with torch.cuda.device_of(x):
        _slopes[plan.grid](x, slope, scaling, plan.sums, plan.rows, relu=relu, **plan.sizes, num_warps=_SLOPES_WARPS)
        _slopes_end[plan.end_grid](plan.sums, plan.grid[0], scaling, result, plan.rows, **plan.end_sizes)
    return result


class _Plan:
    """How the elements of `x`, channels last, are divided among programs."""

    def __init__(self, x: Tensor) -> None:
        self.channels = x.shape[1]
        self.rows = x.numel() // self.channels
        width = min(_CHANNELS, self.channels & -self.channels)  # a power of two that divides
        step = _ROWS * _CHANNELS // width
        across = self.channels // width
        processors = torch.cuda.get_device_properties(x.device).multi_processor_count
        programs = max(1, min(-(-self.rows // step), _PROGRAMS * processors // across))
        self.grid = (programs, across)
        self.sums = torch.empty(programs, 2, self.channels, device=x.device)
        self.sizes: dict[str, Any] = {
            "channels": self.channels,
            "width": width,
            "step": step,
            "whole": self.rows % step == 0,
        }
        end = min(_END_CHANNELS, width)
        self.end_grid = (self.channels // end,)
        self.end_sizes: dict[str, Any] = {
            "channels": self.channels,
            "width": end,
            "step": triton.next_power_of_2(programs),  # all at once: a loop would wait for memory each time
            "num_warps": _END_WARPS,
        }
