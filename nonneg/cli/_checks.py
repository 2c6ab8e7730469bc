"""Checks of command-line options that need no heavy imports."""

from collections.abc import Iterable
from glob import escape
from pathlib import Path
from typing import Any

from nonneg.cli._parse import suggestion
from nonneg.errors import InputError


def reject_options(options: dict[str, Any], expected: str) -> None:
    """Raise an error for the first option that has a value; `expected` says when it may be given."""
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} is given, expected only {expected}")


def require_paths(paths: Iterable[str | None]) -> None:
    """Raise an error for the first path that does not exist, before any import that takes seconds.

    For file:name the file must exist; for a run that no longer exists, its features.
    """
    for path in paths:
        if path is None:
            continue
        candidates = (path, path.rpartition(":")[0] or path, f"{path}.features")
        features = Path(path).parent.glob(f"{escape(Path(path).name)}-*.features")
        if not any(Path(candidate).exists() for candidate in candidates) and not any(features):
            raise InputError(f"{path} does not exist, expected a file or a folder")


def require_known(option: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise an error for the first word that is not known, with the one that was probably meant."""
    known = list(known)
    for word in given:
        if word not in known:
            expected = f"expected some of {', '.join(known)}"
            raise InputError(f"{option} has {word!r}, {expected}{suggestion(word, known)}")


def require_seed(seed: int) -> None:
    """Raise an error for a seed that NumPy does not accept."""
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}, expected 0 to {2**32 - 1}")


def require_counts(options: dict[str, int]) -> None:
    """Raise an error for the first option below 1."""
    for option, count in options.items():
        if count < 1:
            raise InputError(f"{option} is {count}, expected at least 1")
