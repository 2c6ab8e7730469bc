"""Samples: where they come from and what is known of them."""

from collections.abc import Callable
from typing import Literal

from nonneg.data._digits import digits
from nonneg.data._shapes import shapes
from nonneg.data._source import Source
from nonneg.errors import InputError

Split = Literal["train", "test"]
_BUNDLED: dict[str, Callable[[str], Source]] = {"digits": digits, "shapes": shapes}

__all__ = ["Source", "Split", "open_source"]


def open_source(name: str, split: Split = "train") -> Source:
    """A source by name: `digits` or `shapes`, both bundled.

    Example:
        >>> open_source("digits", "test").images.shape
        (397, 8, 8, 1)
    """
    if name not in _BUNDLED:
        raise InputError(f"data is {name!r}, expected one of {', '.join(_BUNDLED)}")
    if split not in ("train", "test"):
        raise InputError(f"split is {split!r}, expected train or test")
    return _BUNDLED[name](split)
