"""Options that do not go together, and numbers that cannot be."""

from collections.abc import Iterable
from glob import escape
from pathlib import Path
from typing import Any

from nonneg.errors import InputError


def refuse_given(options: dict[str, Any], expected: str) -> None:
    """Refuse the first option that has a value, in one sentence that says when it is expected."""
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} is given, expected only {expected}")


def require_paths(given: Iterable[str | None]) -> None:
    """Refuse a path that leads nowhere before anything that takes seconds to import.

    Of file:name there must be the file, and of a run that is gone its features.
    """
    for path in given:
        if path is None:
            continue
        places = (path, path.rpartition(":")[0] or path, f"{path}.features")
        beside = Path(path).parent.glob(f"{escape(Path(path).name)}-*.features")
        if not any(Path(place).exists() for place in places) and not any(beside):
            raise InputError(f"{path} does not exist, expected a file or a folder")


def require_seed(seed: int) -> None:
    """Refuse what NumPy takes for no seed."""
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}, expected 0 to {2**32 - 1}")


def require_counts(options: dict[str, int]) -> None:
    """Refuse the first option that counts nothing."""
    for option, count in options.items():
        if count < 1:
            raise InputError(f"{option} is {count}, expected at least 1")
