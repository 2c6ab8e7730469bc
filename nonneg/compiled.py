"""Loops compiled by numba. Import this module on first use: numba takes half a second to load."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from nonneg.extras import needs_extra

with needs_extra("search", "searching"):
    import numba

Function = TypeVar("Function", bound=Callable[..., Any])


class Lists(NamedTuple):
    """A sparse matrix as lists: list `i` has the entries `starts[i]` to `starts[i + 1]` of `places` and `values`."""

    starts: Any
    places: Any
    values: Any


def compiled(function: Function, **options: Any) -> Function:
    """Compile a function for the types of its first call; it releases the global interpreter lock."""
    try:
        result: Function = numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # numba finds no folder for its cache
        result = numba.njit(nogil=True, **options)(function)
    return result
