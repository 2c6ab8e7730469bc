"""Compiling the parts of one run."""

from collections.abc import Callable
from typing import Any

import torch


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function for the shapes of this run alone, whatever else this process has compiled.

    torch caches compiled code by code object, generalises it (and slows it down) when a second set of shapes appears,
    and gives up after eight. A fresh code object gives each run a cache of its own.
    """

    def in_this_run(*args: Any) -> Any:
        return function(*args)

    in_this_run.__code__ = in_this_run.__code__.replace()
    return torch.compile(in_this_run, dynamic=False)
