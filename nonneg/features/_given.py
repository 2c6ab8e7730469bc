"""A check of arguments that are to be `Features`, or a path of them."""

from os import PathLike
from typing import Any

from nonneg.errors import InputError
from nonneg.features._features import Features

_ARRAYS = {"numpy": "NumPy array", "scipy": "SciPy matrix", "torch": "torch tensor"}  # by the package


def check_features(given: Any, name: str = "features", paths: bool = False) -> None:
    """Raise an error unless an argument is `Features`; or a path, if `paths` is set.

    Example:
        >>> import numpy as np
        >>> check_features(np.eye(3))
        Traceback (most recent call last):
        nonneg.errors.InputError: features is a NumPy array, expected Features; wrap it: Features(X, labels=y)
    """
    if isinstance(given, Features) or (paths and isinstance(given, str | PathLike)):
        return
    kind = type(given)
    array = _ARRAYS.get(kind.__module__.partition(".")[0]) if hasattr(given, "shape") else None
    what = array or kind.__name__
    hint = "; wrap it: Features(X, labels=y)" if array and len(given.shape) == 2 else ""
    hint = "; open it: Features.load(path)" if isinstance(given, str | PathLike) else hint
    found = "None" if given is None else f"{'an' if what[0] in 'aeiouAEIOU' else 'a'} {what}"
    raise InputError(f"{name} is {found}, expected Features{' or a path' if paths else ''}{hint}")
