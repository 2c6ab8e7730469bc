"""Vectors in Parquet and Arrow files, copied once to a memory map for random access, and in Arrow columns."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from nonneg.cache import cache_folder, kept_array, locked, writing
from nonneg.durable import TEMPORARY_PREFIX, flush
from nonneg.errors import InputError
from nonneg.messages import one_line

_FORMAT = 2  # version of the copies in the cache


@dataclass(frozen=True)
class Columnar:
    """A Parquet or Arrow file, of which columns are read in batches.

    Attributes:
        path: the file.
        schema: names and types of its columns.
        rows: their length.
    """

    path: Path
    schema: Any
    rows: int
    _batches: Callable[[str], Iterable[Any]]

    def batches(self, column: str) -> Iterator[Any]:
        """Yield a column as Arrow arrays."""
        if self.schema.names.count(column) > 1:
            raise InputError(f"{self.path} has several columns named {column!r}, expected different names")
        with columnar_errors_as_input_errors(self.path):
            for batch in self._batches(column):
                yield batch.column(column)

    def read(self, column: str) -> Any:
        """Return a whole column."""
        return pa.chunked_array(list(self.batches(column)), self.schema.field(column).type)


def open_columnar(path: Path) -> Columnar:
    """Open a Parquet or Arrow file as a memory map; only its description is read."""
    with columnar_errors_as_input_errors(path):
        if path.suffix.lower() == ".parquet":
            file = pq.ParquetFile(path, memory_map=True)
            read = partial(file.iter_batches, batch_size=8192)
            return Columnar(path, file.schema_arrow, file.metadata.num_rows, lambda column: read(columns=[column]))
        schema = _open_arrow(path).schema
        return Columnar(path, schema, sum(map(len, _arrow_batches(path))), lambda column: _arrow_batches(path))


def _open_arrow(path: Path) -> Any:
    mapped = pa.memory_map(str(path))
    try:
        return pa.ipc.open_file(mapped)
    except pa.ArrowInvalid:  # Arrow's other format, for streams, which Hugging Face datasets writes
        mapped.seek(0)
        return pa.ipc.open_stream(mapped)


def _arrow_batches(path: Path) -> Iterator[Any]:
    """Yield batches one by one: compressed ones take memory only while they are read."""
    reader = _open_arrow(path)
    is_stream = not hasattr(reader, "num_record_batches")
    for batch in reader if is_stream else map(reader.get_batch, range(reader.num_record_batches)):
        batch.validate(full=True)  # Arrow would read outside the arrays of a damaged file
        yield batch


@contextmanager
def columnar_errors_as_input_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a damaged Parquet or Arrow file into an `InputError`."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        kind = "Parquet" if path.suffix.lower() == ".parquet" else "Arrow"
        # Without its cause: an OSError would look like an error of writing the cache.
        raise InputError(f"{path} cannot be read as {kind}: {one_line(error)}") from None


def vector_columns(path: Path) -> list[str]:
    """Names of the columns of lists."""
    columns = [field.name for field in open_columnar(path).schema if _is_list(field.type)]
    if not columns:
        raise InputError(f"{path} has no column of vectors, expected a column of lists of numbers")
    return columns


def columnar_vectors(path: Path, column: str, progress: bool) -> Any:
    """Open a column of lists as a memory map `(rows, width)`."""
    file = open_columnar(path)
    there = path.stat()
    key = json.dumps([_FORMAT, str(path.resolve()), there.st_size, there.st_mtime_ns, column])
    folder = cache_folder(None) / "vectors"
    place = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.npy"

    def write() -> None:
        with writing(folder):
            _copy_to(place, file, column)

    with locked(folder, progress):
        return kept_array(place, write, "r")


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _copy_to(place: Path, file: Columnar, column: str) -> None:
    # Written, not memory-mapped: a full disk would kill a process that writes to a map.
    temporary = place.with_name(f"{TEMPORARY_PREFIX}{place.name}")
    path, rows, row = file.path, file.rows, 0
    try:
        with temporary.open("wb") as target:
            for batch in file.batches(column):
                if not len(batch):
                    continue
                block = arrow_vectors(batch, f"{path}, from row {row}")
                if row == 0:
                    width, kind = block.shape[1], np.float16 if block.dtype == np.float16 else np.float32
                    header = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": (rows, width)}
                    np.lib.format.write_array_header_1_0(target, header)
                if block.shape[1] != width:
                    raise InputError(f"{path}, row {row}, has {block.shape[1]} numbers, expected {width}")
                target.write(np.ascontiguousarray(as_floats(block, kind)).data)
                row += len(block)
            flush(target)
        if row != rows or not row:
            raise InputError(f"{path} has {row or 'no'} rows, expected {rows or 'at least one'}")
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)


def arrow_vectors(column: Any, name: str = "the column") -> Any:
    """Convert an Arrow column of lists of numbers to an array `(rows, width)`.

    Example:
        >>> arrow_vectors(pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0, 4.0]), 2))
        array([[1., 2.],
               [3., 4.]])
    """
    if isinstance(column, pa.ChunkedArray):
        parts = [arrow_vectors(chunk, name) for chunk in column.chunks if len(chunk)]
        if not parts:
            raise InputError(f"{name} has no rows, expected at least one")
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    kind = column.type
    check_vector_type(kind, name)
    if column.null_count:
        missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]
        raise InputError(f"{name}, row {missing}, is missing, expected a vector")
    values = column.flatten()
    if values.null_count:
        raise InputError(f"{name} has vectors with missing numbers, expected none")
    if not pa.types.is_fixed_size_list(kind):
        lengths = column.value_lengths().to_numpy()
        if len(lengths) and (lengths != lengths[0]).any():
            odd = int(np.flatnonzero(lengths != lengths[0])[0])
            raise InputError(f"{name}, row {odd}, has {lengths[odd]} numbers, expected {lengths[0]}, as in row 0")
    return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)


def check_vector_type(kind: Any, name: str) -> None:
    """Raise an `InputError` unless an Arrow type is that of lists of numbers."""
    if not _is_list(kind) or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise InputError(f"{name} is an Arrow column of {kind}, expected lists of numbers")


def as_column(values: Any) -> Any:
    """Convert a Series of lists or arrays, from pandas or polars, to an Arrow column; return anything else as it is.

    Example:
        >>> as_column(np.array([[1.0, 2.0], None], dtype=object)).type
        ListType(list<item: double>)
    """
    if len(getattr(values, "shape", ())) != 1:
        return values
    if hasattr(values, "to_arrow"):
        return values.to_arrow()
    is_nested = values.dtype == object and any(isinstance(each, list | tuple | np.ndarray) for each in values[:1])
    if not is_nested:
        return values
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"the column cannot be read as vectors: {one_line(error)}") from error


def as_floats(vectors: Any, dtype: type = np.float32) -> Any:
    """Convert to float32, or another type; rows outside its range are divided by their largest entry.

    Example:
        >>> as_floats(np.array([[3e40, 4e40], [3.0, 4.0]])).tolist()
        [[0.75, 1.0], [3.0, 4.0]]
    """
    limits = np.finfo(dtype)
    if vectors.dtype.kind == "f" and vectors.dtype.itemsize > limits.dtype.itemsize:
        largest = np.abs(vectors).max(1, keepdims=True, initial=0)
        is_beyond = (largest > limits.max) | ((largest < limits.tiny / limits.eps) & (largest > 0))
        # NaN and infinity are kept, and reported by row later.
        vectors = vectors / np.where(is_beyond & np.isfinite(largest), largest, 1) if is_beyond.any() else vectors
    with np.errstate(over="ignore", under="ignore"):
        return vectors.astype(dtype, copy=False)
