"""Atomic writes, and reads of files that somebody else may have written.

A kill, a crash or a full disk leaves either the old or the new content. Only regular files are read, and only a bounded
number of bytes.
"""

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from nonneg.errors import InputError
from nonneg.locks import lock

TEMPORARY_PREFIX = ".nonneg-tmp-"
_LOCK = f"{TEMPORARY_PREFIX}lock"
MOST_BYTES = 2**32  # of a file that is read into memory
_MOST_JSON = 2**28  # bytes
_CHECKSUM, _DIGITS = "checksum", 16
_CANNOT_SYNC = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP, errno.EBADF)


@contextmanager
def atomic_writer(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` once it is complete and on disk.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "a.txt"
        >>> with atomic_writer(target) as file:
        ...     _ = file.write(b"all or nothing")
        >>> target.read_text()
        'all or nothing'
    """
    temporary = temporary_path(path.parent)
    try:
        with os_errors_as_input_errors(path), temporary.open("xb") as file:
            yield file
            flush(file)
        with os_errors_as_input_errors(path):
            temporary.replace(path)
            sync_folder(path.parent)
    finally:
        with suppress(OSError):  # if it could not be created, that error has been raised already
            temporary.unlink(missing_ok=True)


def temporary_path(folder: Path) -> Path:
    """Return a new name for an unfinished file."""
    return folder / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"


@contextmanager
def os_errors_as_input_errors(path: Path, what: str = "written") -> Iterator[None]:
    """Turn errors of the operating system (no permission, disk full, …) into an `InputError` about `path`."""
    try:
        if b"\0" in os.fsencode(path):  # invalid Unicode in a path is an error too
            raise OSError("its name holds a null character")
        yield
    except (OSError, UnicodeEncodeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(f"{path} cannot be {what}: {reason}") from error


def read_errors_as_input_errors(path: Path) -> AbstractContextManager[None]:
    """Do the same for reading."""
    return os_errors_as_input_errors(path, "read")


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the content of a file. Whatever happens, the file holds the old or the new content."""
    with atomic_writer(path) as file:
        file.write(content)


def flush(file: IO[bytes]) -> None:
    """Write everything to disk before returning."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush a folder, and with it the renames in it, to disk; do nothing on systems that cannot flush folders."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def claim_folder(folder: Path, marker: str, content: dict[str, Any], holds: set[str], overwrite: bool) -> Path:
    """Create a folder for results that holds only the JSON file `marker`.

    With `overwrite`, earlier results are removed: those whose marker has the same `made_by`, in a folder that holds
    only the marker and names in `holds`. A folder with any other file is an error.
    """
    entries = check_claimable(folder, marker, content["made_by"], holds, overwrite)
    with os_errors_as_input_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    # Write the marker first: if that fails, nothing is removed.
    write_atomically(folder / marker, json.dumps(sealed(content), indent=1).encode())
    with os_errors_as_input_errors(folder):
        for path in entries:
            if path.name != marker:
                remove(path)
    return folder


def check_claimable(folder: Path, marker: str, maker: str, holds: set[str], overwrite: bool) -> list[Path]:
    """Raise the errors that `claim_folder` would raise, without changing anything.

    Returns:
        The paths in the folder, which `claim_folder` would remove.
    """
    if entries := folder_entries(folder):
        foreign = [path.name for path in entries if path.name not in {marker, *holds}]
        if foreign or made_by(folder / marker) != maker:
            named = (foreign or [entries[0].name])[0]
            raise InputError(f"{folder} holds other files ({named}), expected an empty folder or a new name")
        if not overwrite:
            raise InputError(f"{folder} exists already; choose another folder or pass --overwrite to replace it")
    return entries


def folder_entries(folder: Path) -> list[Path]:
    """Return what a folder that is to be written holds, without temporary files; nothing if it does not exist."""
    with os_errors_as_input_errors(folder):
        if not folder.exists():
            return []
        if not folder.is_dir():
            raise InputError(f"{folder} is a file, expected a folder or a new name")
        return sorted(path for path in folder.iterdir() if not path.name.startswith(TEMPORARY_PREFIX))


def made_by(marker: Path) -> str | None:
    """Return the `made_by` of a folder's marker; None if there is no readable marker."""
    return read_object_or_nothing(marker).get("made_by")


def check_regular_file(path: Path, most: int | None = None) -> None:
    """Check that a path is a readable regular file, without waiting for a pipe or a device.

    Raises:
        InputError: for a folder, a pipe, a socket, a device, a file that does not exist or cannot be opened, or a file
            with more than `most` bytes.
    """
    with read_errors_as_input_errors(path):
        if path.exists() and not path.is_file():
            found = "a folder" if path.is_dir() else "not a regular file"
            raise InputError(f"{path} is {found}, expected a file")
        path.open("rb").close()
        size = path.stat().st_size
    if most is not None and size > most:
        raise InputError(f"{path} has {size:,} bytes, expected at most {most:,}")


def check_place(path: Path) -> None:
    """Raise an error, before any work, if a file cannot be written to this path."""
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(f"{path} cannot be written: {path.parent} is not a writable folder")
    if path.is_dir():
        raise InputError(f"{path} is a folder, expected a file or a new name")


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read a regular file into memory; a file with more than `most` bytes is an error.

    Example:
        >>> read_bounded(Path("/dev/zero"))
        Traceback (most recent call last):
        nonneg.errors.InputError: /dev/zero is not a regular file, expected a file
    """
    check_regular_file(path, most)
    with read_errors_as_input_errors(path), path.open("rb") as file:
        return file.read(most)


def read_object(path: Path, advice: str = "", parse: Callable[[str], Any] = json.loads) -> dict[str, Any]:
    """Read a file that must hold a JSON object, or what another parser returns; the advice ends an error's sentence."""
    content = read_bounded(path, _MOST_JSON)
    try:
        found = parse(content.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: it cannot be parsed{advice}") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} is damaged: it holds a {type(found).__name__}, expected an object{advice}")
    return found


def read_object_or_nothing(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one if the file is missing, damaged or not a regular file."""
    try:
        return read_object(path)
    except InputError:
        return {}


def is_leftover(path: Path) -> bool:
    """Whether an interrupted process has left this temporary file or folder."""
    return path.name.startswith(TEMPORARY_PREFIX) and path.name != _LOCK


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with everything in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with a checksum of its own content, which `unsealed` checks.

    Example:
        >>> unsealed(json.loads(json.dumps(sealed({"loss": 0.5}))))
        {'loss': 0.5}
    """
    return {**content, _CHECKSUM: digest_of(content)[:_DIGITS]}


def unsealed(content: Mapping[str, Any], name: str | Path = "it") -> dict[str, Any]:
    """Return a JSON object without its checksum; older files have none. `name` is what an error calls it.

    Raises:
        InputError: if the content is not what was sealed.
    """
    found = {key: value for key, value in content.items() if key != _CHECKSUM}
    if content.get(_CHECKSUM) not in (None, digest_of(found)[:_DIGITS]):
        raise InputError(f"{name} was changed since it was saved; if that is intended, remove its checksum")
    if _CHECKSUM not in content and any(map(partial(_is_checksum, content), content)):
        raise InputError(f"{name} is damaged: the name of its checksum was changed since it was saved")
    return found


def _is_checksum(content: Mapping[str, Any], key: str) -> bool:
    """Whether the value of a key is the checksum of everything else, under a name that was damaged."""
    value = content[key]
    if not isinstance(value, str) or len(value) != _DIGITS:
        return False
    return value == digest_of({name: other for name, other in content.items() if name != key})[:_DIGITS]


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 hash of a JSON object, which does not depend on the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock a folder against other writers; create it if needed, and remove it again if the block fails and it is empty.

    Raises:
        InputError: if another process holds the lock.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "runs" / "x"
        >>> with folder_lock(folder):
        ...     raise InputError("no")
        Traceback (most recent call last):
        nonneg.errors.InputError: no
        >>> folder.parent.exists()
        False
    """
    folder_entries(folder)  # a file in its place is an error
    with os_errors_as_input_errors(folder):
        created = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if not _is_locked(folder, stack):
            raise InputError(f"{folder} is being written by another process; wait for it or use another folder")
        try:
            yield
        except BaseException:
            with suppress(OSError):  # a folder that is not empty stays
                for each in created:  # while it is locked: another process may want to use it
                    each.rmdir()
            raise


def _is_locked(folder: Path, stack: ExitStack) -> bool:
    """Lock a folder until the stack is closed; return False if another process has locked or removed it."""
    # Windows and some network file systems cannot lock folders: there, a file in the folder is locked. Where nothing
    # can be locked, writing is allowed.
    for path, flags in ((folder, os.O_RDONLY), (folder / _LOCK, os.O_RDWR | os.O_CREAT)):
        try:
            descriptor = os.open(path, flags)
            stack.callback(os.close, descriptor)
            return lock(descriptor, wait=False) and os.path.samestat(path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False
        except OSError:
            continue
    return True
