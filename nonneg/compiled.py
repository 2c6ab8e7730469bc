"""Loops compiled by numba, and what they run over. Imported on first use: numba takes half a second to load."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


class Lists(NamedTuple):
    """A sparse matrix as lists: entries `starts[i]` to `starts[i + 1]` of places and values."""

    starts: Any
    places: Any
    values: Any


def compiled(function: Function, **options: Any) -> Function:
    """Compile for the types of the first call and let other threads run meanwhile."""
    try:
        result: Function = numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # there is no folder to keep what is compiled in
        result = numba.njit(nogil=True, **options)(function)
    return result
