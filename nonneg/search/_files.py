"""Files of an index's folder: named by their content, mapped when opened; and one writer at a time."""

import fcntl
import hashlib
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nonneg.durable import TEMPORARY_PREFIX, flush, read_plainly, said_plainly
from nonneg.errors import InputError

Array = npt.NDArray[Any]
Entry = dict[str, Any]
"""What `meta.json` says of a file: its name, bytes and sha256."""
LOCK = ".lock"
PAYLOAD = re.compile(r"(ids|labels|starts|places|values|scales|deleted|seismic)-[0-9a-f]{16}\.(npy|arrow|seismic)")
DATABASE = re.compile(r"milvus-[0-9a-f]{16}\.db")


def is_own(name: str) -> bool:
    """Whether an index could have written a file of this name."""
    return bool(PAYLOAD.fullmatch(name) or DATABASE.fullmatch(name))


def new_name(folder: Path) -> Path:
    """A name for what is not finished yet; a sweep removes it."""
    return folder / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"


def write_array(folder: Path, name: str, array: Array) -> Entry:
    """Write an array under a name of its own."""
    return _written(folder, f"{name}-{{}}.npy", lambda file: np.lib.format.write_array(file, array, allow_pickle=False))


def write_strings(folder: Path, name: str, strings: pa.Array) -> Entry:
    """The same for strings, as an Arrow file of one column."""

    def write(file: IO[bytes]) -> None:
        table = pa.table({name: strings})
        with pa.ipc.new_file(pa.PythonFile(file, "w"), table.schema) as writer:
            writer.write_table(table)

    return _written(folder, f"{name}-{{}}.arrow", write)


def _written(folder: Path, name: str, write: Callable[[IO[bytes]], object]) -> Entry:
    temporary = new_name(folder)
    with said_plainly(folder), temporary.open("xb") as file:
        write(file)
    return adopted(temporary, name)


def adopted(temporary: Path, name: str) -> Entry:
    """A finished file gets the name that its content gives it, once it is on disk."""
    with said_plainly(temporary.parent), temporary.open("rb+") as file:
        flush(file)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        final = temporary.replace(temporary.with_name(name.format(digest[:16])))
        return {"file": final.name, "bytes": final.stat().st_size, "sha256": digest}


def open_array(folder: Path, entry: Entry, kind: str, shape: tuple[int, ...]) -> Array:
    """A memory-mapped array of this type and shape; anything else is damage."""
    path = checked_size(folder, entry)
    try:
        with read_plainly(path):
            array: Array = np.lib.format.open_memmap(path, mode="r")
    except InputError:
        raise
    except Exception as error:  # a damaged header can make NumPy raise nearly anything
        raise damaged(path, "it is not a plain NumPy array") from error
    if array.dtype != np.dtype(kind) or array.shape != shape:
        found = f"it holds {array.dtype} of shape {array.shape}"
        raise damaged(path, f"{found}, expected {np.dtype(kind)} of shape {shape}")
    return array.view(np.ndarray)


def open_strings(folder: Path, entry: Entry, name: str, rows: int) -> pa.Array:
    """A memory-mapped column of strings, none missing."""
    path = checked_size(folder, entry)
    with read_plainly(path):
        mapped = pa.memory_map(str(path))
    try:
        table = pa.ipc.open_file(mapped).read_all()
        table.validate(full=True)  # offsets that point outside would crash whoever reads them
        column = table.column(name).combine_chunks()
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise damaged(path, "it is not an Arrow file of strings") from error
    if len(column) != rows or column.type != pa.string() or column.null_count:
        raise damaged(path, f"it holds {len(column)} values of {column.type}, expected {rows} strings")
    return column


def checked_size(folder: Path, entry: Entry) -> Path:
    """The path of a file that is as long as it was."""
    path: Path = folder / entry["file"]
    with read_plainly(path):
        found = path.stat().st_size
    if not path.is_file() or found != entry["bytes"]:
        raise damaged(path, f"it has {found:,} bytes, expected {entry['bytes']:,}")
    return path


def checked_content(folder: Path, entry: Entry) -> Path:
    """The path of a file that is what was saved, byte by byte."""
    path = checked_size(folder, entry)
    with read_plainly(path), path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != entry["sha256"]:
        raise damaged(path, "it is not what was saved (SHA-256 differs)")
    return path


def damaged(path: Path, what: str) -> InputError:
    """The sentence for a file that cannot be trusted."""
    return InputError(f"{path} is damaged: {what}; build the index again")


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """One at a time; the lock ends with the process, however that ends."""
    with said_plainly(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("ab")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder} is being written by another process; try again when it is done") from None
        yield


def sweep(folder: Path, named: set[str]) -> None:
    """Remove what no `meta.json` names: leftovers of a crash, or of the index before."""
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if path.name in named or not (is_own(path.name) or path.name.startswith(TEMPORARY_PREFIX)):
                continue
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
