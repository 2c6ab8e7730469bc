"""Files that people name: only regular files are read, and only a bounded number of bytes as text."""

from pathlib import Path

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError

MOST_BYTES = 2**32
"""Size of the largest file that is read into memory as text."""


def check_regular_file(path: Path) -> None:
    """Check that a path is a readable regular file, without waiting for a pipe or a device.

    Raises:
        InputError: for a folder, a pipe, a socket, a device, or a file that does not exist or cannot be opened.
    """
    with read_errors_as_input_errors(path):
        if path.exists() and not path.is_file():
            found = "a folder" if path.is_dir() else "not a regular file"
            raise InputError(f"{path} is {found}, expected a file")
        path.open("rb").close()


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read a regular file into memory; a file with more than `most` bytes is an error.

    Example:
        >>> read_bounded(Path("/dev/zero"))
        Traceback (most recent call last):
        nonneg.errors.InputError: /dev/zero is not a regular file, expected a file
    """
    check_size(path, most)
    with read_errors_as_input_errors(path), path.open("rb") as file:
        return file.read(most)


def check_size(path: Path, most: int = MOST_BYTES) -> None:
    """Check that a path is a regular file with at most `most` bytes."""
    check_regular_file(path)
    with read_errors_as_input_errors(path):
        size = path.stat().st_size
    if size > most:
        raise InputError(f"{path} has {size:,} bytes, expected at most {most:,}")
