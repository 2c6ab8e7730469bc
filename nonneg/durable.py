"""Writes that a kill, a crash or a full disk cannot leave half done."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from nonneg.errors import InputError

TEMPORARY_PREFIX = ".tmp-"


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write into that takes the place of `path` only once it is complete and on disk.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "a.txt"
        >>> with replacing(target) as file:
        ...     _ = file.write(b"whole or not at all")
        >>> target.read_text()
        'whole or not at all'
    """
    temporary = path.parent / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    try:
        with said_plainly(path), temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with said_plainly(path):
            temporary.replace(path)
            sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def said_plainly(path: Path) -> Iterator[None]:
    """Turns the operating system's refusal (no permission, disk full, …) into one sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from error


def write_bytes(path: Path, content: bytes) -> None:
    """`path` holds `content` or what it held before, whatever happens."""
    with replacing(path) as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """A rename is on disk only when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
