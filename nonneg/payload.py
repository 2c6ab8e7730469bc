"""Arrays and tables of a folder, each in a file named after its content. Files are memory-mapped and checked."""

import hashlib
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nonneg.durable import flush, os_errors_as_input_errors, read_errors_as_input_errors, temporary_path
from nonneg.errors import InputError
from nonneg.messages import one_line

Array = npt.NDArray[Any]
Entry = dict[str, Any]
"""What a folder's `meta.json` says about a file: its name, size in bytes and SHA-256 hash."""
_ROWS_PER_BATCH = 65_536


class Hashing:
    """A file that hashes everything written to it."""

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
    """Write an array to the file `NAME-HASH.npy` and flush it to disk.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> entry = write_array(folder, "codes", np.eye(2, dtype=np.float32))
        >>> open_array(folder, entry, ("float32",), (2, None)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return write_file(folder, name, "npy", lambda file: np.lib.format.write_array(file, array, allow_pickle=False))


def write_table(folder: Path, name: str, table: pa.Table) -> Entry:
    """Write an Arrow table to the file `NAME-HASH.arrow` and flush it to disk."""

    def write(file: Any) -> None:
        with pa.ipc.new_file(pa.PythonFile(file, "w"), table.schema) as writer:
            writer.write_table(table, max_chunksize=_ROWS_PER_BATCH)

    return write_file(folder, name, "arrow", write)


def write_file(folder: Path, name: str, kind: str, write: Callable[[Any], None]) -> Entry:
    """Write a file by a function of an open file, flush it to disk and name it after its content."""
    temporary = temporary_path(folder)
    with os_errors_as_input_errors(folder / name):
        with temporary.open("xb") as file:
            hashing = Hashing(file)
            write(hashing)
            flush(file)
        return _named_after_content(temporary, name, kind, hashing.sha256.hexdigest())


def adopted(temporary: Path, name: str, kind: str) -> Entry:
    """Flush a file that another library has written, and rename it after its content."""
    with os_errors_as_input_errors(temporary.parent):
        with temporary.open("rb+") as file:
            flush(file)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return _named_after_content(temporary, name, kind, digest)


def _named_after_content(temporary: Path, name: str, kind: str, digest: str) -> Entry:
    entry: Entry = {"file": f"{name}-{digest[:16]}.{kind}", "bytes": temporary.stat().st_size, "sha256": digest}
    try:
        temporary.replace(temporary.with_name(entry["file"]))
    except PermissionError:  # Windows does not replace a memory-mapped file: keep it if it has the same content
        checked_content(temporary.parent, entry)
        temporary.unlink()
    return entry


# Reading


def is_entry(entry: Any, names: re.Pattern[str]) -> bool:
    """Whether `entry` has the fields of an `Entry` and a file name of this pattern, which must not contain a slash."""
    return (
        names.fullmatch(entry["file"]) is not None and type(entry["bytes"]) is int and isinstance(entry["sha256"], str)
    )


def open_array(folder: Path, entry: Entry, kinds: tuple[str, ...], shape: tuple[int | None, ...]) -> Array:
    """Memory-map an array that must have one of these dtypes and this shape, where None matches any length."""
    path = checked_size(folder, entry)
    try:
        with read_errors_as_input_errors(path):
            array: Array = np.lib.format.open_memmap(path, mode="r")  # an array larger than its file is an error
    except InputError:
        raise
    except Exception as error:  # a damaged header can make NumPy raise nearly any exception
        raise damaged(path, "it is not a plain NumPy array") from error
    fits = len(array.shape) == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if array.dtype not in map(np.dtype, kinds) or not fits:
        wanted = f"({', '.join('any' if n is None else str(n) for n in shape)})"
        found = f"it holds {array.dtype} of shape {array.shape}"
        raise damaged(path, f"{found}, expected {' or '.join(kinds)} of shape {wanted}")
    return array.view(np.ndarray)


def open_table(folder: Path, entry: Entry, columns: Mapping[str, pa.DataType], rows: int | None) -> pa.Table:
    """Memory-map an Arrow table that must have this many rows, if given, and no other columns than these."""
    path = checked_size(folder, entry)
    expected = ", ".join(f"{name} ({kind})" for name, kind in columns.items())
    with read_errors_as_input_errors(path):
        mapped = pa.memory_map(str(path))
    try:
        reader = pa.ipc.open_file(mapped)
        found = ", ".join(f"{field.name} ({field.type})" for field in reader.schema)
        fits = all(columns.get(field.name) == field.type for field in reader.schema)
        if not fits or len(set(reader.schema.names)) < len(reader.schema):
            raise damaged(path, f"it has the columns {found}, expected {expected}")
        mapped.seek(0)
        _check_batches(memoryview(mapped.read_buffer()))  # mapped, not copied
        table = reader.read_all()
        table.validate(full=True)  # offsets that point outside the file would crash the process later
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(path, f"it is not an Arrow file of plain record batches ({one_line(error)})") from error
    if rows not in (None, table.num_rows):
        raise damaged(path, f"it holds {table.num_rows} rows of {found}, expected {rows}")
    return table


def _check_batches(content: memoryview) -> None:
    """Raise ValueError if reading an Arrow file could take more memory than the file has bytes.

    pyarrow decompresses record batches before anybody can ask for their size. This reads the few fields that tell
    (https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format) and rejects what `write_table` never writes:
    compressed batches, dictionaries and batches that share their bytes.
    """
    end = len(content) - 10  # the footer is followed by its length and "ARROW1"
    footer = _target(content, end - _integer(content, end, "<i"))
    if (dictionaries := _field(content, footer, 2)) and _integer(content, _target(content, dictionaries), "<I"):
        raise ValueError("it holds dictionaries")
    blocks = _target(content, _field(content, footer, 3))
    total = 0
    for i in range(_integer(content, blocks, "<I")):
        start = _integer(content, blocks + 4 + 24 * i, "<q")
        message = _target(content, start + 8)
        batch = _target(content, _field(content, message, 2))
        if _integer(content, start, "<i") != -1 or _field(content, batch, 3) or _field(content, message, 4):
            raise ValueError("it holds a compressed record batch or one of an old format")
        body = _field(content, message, 3)
        total += _integer(content, body, "<q") if body else 0
    if total > len(content):
        raise ValueError("its record batches share their bytes")


# Flatbuffers, the format of Arrow's metadata: a table is a position from which an offset leads to its list of fields.


def _integer(content: memoryview, place: int, kind: str) -> int:
    try:
        return int(struct.unpack_from(kind, content, place)[0])
    except (struct.error, OverflowError) as error:
        raise ValueError("an offset points outside the file") from error


def _target(content: memoryview, place: int) -> int:
    """Return the position that the offset stored at `place` points to."""
    return place + _integer(content, place, "<I")


def _field(content: memoryview, table: int, number: int) -> int:
    """Return the position of a table's field, 0 if the table does not have it."""
    fields = table - _integer(content, table, "<i")
    if 4 + 2 * number >= _integer(content, fields, "<H"):
        return 0
    offset = _integer(content, fields + 4 + 2 * number, "<H")
    return table + offset if offset else 0


def checked_size(folder: Path, entry: Entry) -> Path:
    """Return the path of a file that must have the size that was saved."""
    path: Path = folder / entry["file"]
    with read_errors_as_input_errors(path):
        found = path.stat().st_size
    if not path.is_file() or found != entry["bytes"]:
        raise damaged(path, f"it has {found:,} bytes, expected {entry['bytes']:,}")
    return path


def checked_content(folder: Path, entry: Entry) -> Path:
    """Return the path of a file that must have the content that was saved."""
    path = checked_size(folder, entry)
    with read_errors_as_input_errors(path), path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != entry["sha256"]:
        raise damaged(path, "it is not what was saved (SHA-256 differs)")
    return path


def damaged(path: Path, what: str) -> InputError:
    """Return the error for a file whose content is not what was saved."""
    return InputError(f"{path} is damaged: {what}; restore a copy of it or make it again")
