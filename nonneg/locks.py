"""Locks on open files, held by one process at a time. A lock ends when its file is closed or its process ends."""

import os
import time
from contextlib import suppress
from typing import IO, Any

# Linux and macOS have fcntl, Windows has msvcrt. Where neither exists, nothing is locked.
fcntl: Any = None
msvcrt: Any = None
with suppress(ImportError):
    import fcntl
with suppress(ImportError):
    import msvcrt

_PLACE = 2**31 - 2  # on Windows, nobody else can read a locked byte: lock one behind the content
_PAUSE = 0.05  # seconds


def lock(file: IO[bytes] | int, wait: bool = True) -> bool:
    """Lock an open file, or a file descriptor, against other processes that call this function.

    Args:
        file: what to lock, until it is closed.
        wait: wait while another process holds the lock.

    Returns:
        Whether this process holds the lock now; always True with `wait`.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as first, open(first.name, "rb") as second:
        ...     lock(first), lock(second, wait=False)
        (True, False)
    """
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
    elif msvcrt is not None:
        return _lock_on_windows(file if isinstance(file, int) else file.fileno(), wait)
    return True


def _lock_on_windows(descriptor: int, wait: bool) -> bool:
    before = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _PLACE, os.SEEK_SET)
    try:
        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
                return True
            except PermissionError:  # another process holds the lock
                if not wait:
                    return False
            time.sleep(_PAUSE)
    finally:
        os.lseek(descriptor, before, os.SEEK_SET)
