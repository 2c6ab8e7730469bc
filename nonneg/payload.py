"""Arrays and tables of a folder: in files named by their content, mapped when opened, never trusted; one writer."""

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nonneg.durable import TEMPORARY_PREFIX, flush, os_errors_as_input_errors, read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.locks import lock

Array = npt.NDArray[Any]
Entry = dict[str, Any]
"""What a folder's `meta.json` says of a file: its name, bytes and sha256."""
_LOCK = ".lock"
_ROWS_TOGETHER = 65_536


class Hashing:
    """A file that hashes what passes through."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.sha256, self.bytes, self.closed = file, hashlib.sha256(), 0, False

    def write(self, chunk: Any) -> int:
        self.sha256.update(chunk)
        self.bytes += memoryview(chunk).nbytes
        return self._file.write(chunk)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self.bytes


# Writing


def write_array(folder: Path, name: str, array: Array) -> Entry:
    """Write an array to a file of its own, `NAME-HASH.npy`, on disk when this returns.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> entry = write_array(folder, "codes", np.eye(2, dtype=np.float32))
        >>> open_array(folder, entry, ("float32",), (2, 2)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return _written(folder, name, "npy", lambda file: np.lib.format.write_array(file, array, allow_pickle=False))


def write_table(folder: Path, name: str, table: pa.Table) -> Entry:
    """The same for an Arrow table."""

    def write(file: Any) -> None:
        with pa.ipc.new_file(pa.PythonFile(file, "w"), table.schema) as writer:
            writer.write_table(table, max_chunksize=_ROWS_TOGETHER)

    return _written(folder, name, "arrow", write)


def _written(folder: Path, name: str, kind: str, write: Callable[[Any], None]) -> Entry:
    temporary = new_name(folder)
    with os_errors_as_input_errors(folder / name):
        with temporary.open("xb") as file:
            hashing = Hashing(file)
            write(hashing)
            flush(file)
        digest = hashing.sha256.hexdigest()
        final = temporary.replace(folder / f"{name}-{digest[:16]}.{kind}")
    return {"file": final.name, "bytes": hashing.bytes, "sha256": digest}


def adopted(temporary: Path, name: str, kind: str) -> Entry:
    """A file that somebody else has finished gets the name that its content gives it, once it is on disk."""
    with os_errors_as_input_errors(temporary.parent), temporary.open("rb+") as file:
        flush(file)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        final = temporary.replace(temporary.with_name(f"{name}-{digest[:16]}.{kind}"))
        return {"file": final.name, "bytes": final.stat().st_size, "sha256": digest}


def new_name(folder: Path) -> Path:
    """A name for what is not finished yet."""
    return folder / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"


@contextmanager
def single_writer(folder: Path) -> Iterator[None]:
    """Makes the folder; one process at a time, and the lock ends with the process, however that ends."""
    with os_errors_as_input_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("ab")
    with file:
        with os_errors_as_input_errors(folder):
            is_locked = lock(file, wait=False)
        if not is_locked:
            raise InputError(f"{folder} is being written by another process; try again when it is done")
        yield


# Reading. `advice` ends the sentence about a damaged file.


def is_entry(entry: Any, names: re.Pattern[str]) -> bool:
    """Whether it has the fields of one, and a name that cannot leave the folder."""
    return (
        names.fullmatch(entry["file"]) is not None and type(entry["bytes"]) is int and isinstance(entry["sha256"], str)
    )


def open_array(folder: Path, entry: Entry, kinds: tuple[str, ...], shape: tuple[int, ...], advice: str = "") -> Array:
    """A memory-mapped array of one of these types and this shape; anything else is damage."""
    path = checked_size(folder, entry, advice)
    try:
        with read_errors_as_input_errors(path):
            array: Array = np.lib.format.open_memmap(path, mode="r")
    except InputError:
        raise
    except Exception as error:  # a damaged header can make NumPy raise nearly anything
        raise damaged(path, "it is not a plain NumPy array", advice) from error
    if array.dtype not in map(np.dtype, kinds) or array.shape != shape:
        found = f"it holds {array.dtype} of shape {array.shape}"
        raise damaged(path, f"{found}, expected {' or '.join(kinds)} of shape {shape}", advice)
    return array.view(np.ndarray)


def open_table(folder: Path, entry: Entry, columns: dict[str, pa.DataType], rows: int, advice: str = "") -> pa.Table:
    """A memory-mapped Arrow table of so many rows and any of these columns."""
    path = checked_size(folder, entry, advice)
    with read_errors_as_input_errors(path):
        mapped = pa.memory_map(str(path))
    try:
        table = pa.ipc.open_file(mapped).read_all()
        table.validate(full=True)  # offsets that point outside would crash whoever reads them
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(path, "it is not an Arrow file", advice) from error
    fits = all(columns.get(field.name) == field.type for field in table.schema)
    if not fits or table.num_rows != rows or len(set(table.column_names)) < table.num_columns:
        found = ", ".join(f"{field.name} ({field.type})" for field in table.schema)
        expected = ", ".join(f"{name} ({kind})" for name, kind in columns.items())
        raise damaged(path, f"it holds {table.num_rows} rows of {found}, expected {rows} of {expected}", advice)
    return table


def checked_size(folder: Path, entry: Entry, advice: str = "") -> Path:
    """The path of a file that is as long as it was."""
    path: Path = folder / entry["file"]
    with read_errors_as_input_errors(path):
        found = path.stat().st_size
    if not path.is_file() or found != entry["bytes"]:
        raise damaged(path, f"it has {found:,} bytes, expected {entry['bytes']:,}", advice)
    return path


def checked_content(folder: Path, entry: Entry, advice: str = "") -> Path:
    """The path of a file that is what was saved, byte by byte."""
    path = checked_size(folder, entry, advice)
    with read_errors_as_input_errors(path), path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != entry["sha256"]:
        raise damaged(path, "it is not what was saved (SHA-256 differs)", advice)
    return path


def damaged(path: Path, what: str, advice: str = "") -> InputError:
    """The sentence for a file that cannot be trusted."""
    return InputError(f"{path} is damaged: {what}{advice}")
