"""Compiling the parts of one run."""

from collections.abc import Callable
from typing import Any

import torch


def compiled(work: Callable[..., Any]) -> Callable[..., Any]:
    """For the shapes of this run alone, whatever else was compiled in this process.

    torch keeps what it compiled by code object, makes a second set of shapes more general and so
    slower, and gives up after eight. A run gets a code object of its own.
    """

    def of_this_run(*args: Any) -> Any:
        return work(*args)

    of_this_run.__code__ = of_this_run.__code__.replace()
    return torch.compile(of_this_run, dynamic=False)
