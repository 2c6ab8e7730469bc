"""The cache folder for decoded images and vectors, its lock, and arrays that are kept in it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nonneg.errors import InputError
from nonneg.locks import lock
from nonneg.progress import print_line

ANOTHER_PLACE = "choose another folder for it with the environment variable NONNEG_CACHE"
_LOCK = ".lock"


def cache_folder(chosen: Path | None) -> Path:
    """Return `chosen`, `$NONNEG_CACHE`, `$XDG_CACHE_HOME/nonneg` or `~/.cache/nonneg`, the first that is set."""
    if chosen is not None:
        return Path(chosen)
    if own := os.environ.get("NONNEG_CACHE"):
        return Path(own).expanduser()
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:  # a user without a home
        raise InputError(f"the cache needs a folder, but there is no home folder; {ANOTHER_PLACE}") from error
    return Path(base) / "nonneg"


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn errors of writing the cache into an `InputError` with advice."""
    try:
        yield
    except (OSError, InputError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        reason = (cause.strerror or str(cause)).lower()
        raise InputError(f"the cache {folder} cannot be written: {reason}; {ANOTHER_PLACE}") from error


@contextmanager
def locked(folder: Path, show_progress: bool) -> Iterator[None]:
    """Lock the cache folder; other processes wait, and then find the finished work."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("ab")
    with file:
        with writing(folder):
            if not lock(file, wait=False):
                if show_progress:
                    print_line(f"waiting for another process that writes to the cache {folder}")
                lock(file)
        yield


def kept_array(place: Path, write: Callable[[], None], mmap_mode: Literal["r"] | None = None) -> Any:
    """Return the array in a file of the cache; `write` makes the file if it is missing or damaged."""
    try:
        return np.load(place, mmap_mode)
    except (OSError, ValueError, EOFError):
        write()
    return np.load(place, mmap_mode)
