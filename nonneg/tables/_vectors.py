"""Vectors in Parquet and Arrow files, copied once to a memory map for random access, and in Arrow columns."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from nonneg.messages import counted, one_line

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
    _batches: Callable[[list[str]], Iterable[Any]]

    def batches(self, *columns: str) -> Iterator[Any]:
        """Yield some columns, in this order, as Arrow record batches."""
        for column in columns:
            if self.schema.names.count(column) > 1:
                raise InputError(f"{self.path} has several columns named {column!r}, expected different names")
        with columnar_errors_as_input_errors(self.path):
            for batch in self._batches(list(columns)):
                yield batch.select(list(columns))

    def read(self, column: str) -> Any:
        """Return a whole column."""
        parts = [batch.column(0) for batch in self.batches(column)]
        return pa.chunked_array(parts, self.schema.field(column).type)


def open_columnar(path: Path) -> Columnar:
    """Open a Parquet or Arrow file as a memory map; only its description is read."""
    with columnar_errors_as_input_errors(path):
        if path.suffix.lower() == ".parquet":
            file = pq.ParquetFile(path, memory_map=True)
            read = partial(file.iter_batches, batch_size=8192)
            return Columnar(path, file.schema_arrow, file.metadata.num_rows, lambda columns: read(columns=columns))
        schema = _open_arrow(path).schema
        return Columnar(path, schema, sum(map(len, _arrow_batches(path))), lambda columns: _arrow_batches(path))


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


def list_columns(path: Path) -> list[str]:
    """Names of the columns of lists."""
    return [field.name for field in open_columnar(path).schema if _is_list(field.type)]


def columnar_vectors(path: Path, columns: Sequence[str], progress: bool) -> Any:
    """Open a column of lists, or several columns of numbers, as a memory map `(rows, width)`."""
    file = open_columnar(path)
    there = path.stat()
    key = json.dumps([_FORMAT, str(path.resolve()), there.st_size, there.st_mtime_ns, *columns])
    folder = cache_folder(None) / "vectors"
    place = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.npy"

    def write() -> None:
        with writing(folder):
            _copy_to(place, file, columns)

    with locked(folder, progress):
        return kept_array(place, write, "r")


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _copy_to(place: Path, file: Columnar, columns: Sequence[str]) -> None:
    # Written, not memory-mapped: a full disk would kill a process that writes to a map.
    temporary = place.with_name(f"{TEMPORARY_PREFIX}{place.name}")
    path, rows, row = file.path, file.rows, 0
    try:
        with temporary.open("wb") as target:
            for batch in file.batches(*columns):
                if not len(batch):
                    continue
                if _is_list(batch.schema.types[0]):
                    block = arrow_vectors(batch.column(0), str(path), row)
                else:
                    block = number_columns(batch, columns, str(path), row)
                if row == 0:
                    width, kind = block.shape[1], np.float16 if block.dtype == np.float16 else np.float32
                    header = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": (rows, width)}
                    np.lib.format.write_array_header_1_0(target, header)
                if block.shape[1] != width:
                    found = f"{path}, row {row}, has {counted(block.shape[1], 'number')}"
                    raise InputError(f"{found}, expected {width}, as in row 0")
                target.write(np.ascontiguousarray(as_floats(block, kind)).data)
                row += len(block)
            flush(target)
        if row != rows or not row:
            raise InputError(f"{path} has {row or 'no'} rows, expected {rows or 'at least one'}")
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)


def number_columns(table: Any, names: Sequence[str], where: str, first_row: int = 0) -> Any:
    """Convert Arrow columns of numbers to an array `(rows, columns)`.

    Args:
        table: an Arrow table or record batch.
        names: of its columns, for error messages.
        where: the file, for error messages.
        first_row: the number that error messages give to its first row.
    """
    for name, column in zip(names, table.columns, strict=True):
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
            expected = "expected numbers in all columns but id and those given as labels, ids or texts"
            raise InputError(f"{where}, column {name}, holds {column.type}, {expected}")
        if column.null_count:
            row = first_row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise InputError(f"{where}, column {name}, is empty in row {row}, expected a number")
    return np.column_stack([column.to_numpy() for column in table.columns])


def arrow_vectors(column: Any, name: str = "the column", first_row: int = 0) -> Any:
    """Convert an Arrow column of lists of numbers to an array `(rows, width)`.

    Args:
        column: an Arrow array or chunked array.
        name: what error messages call it.
        first_row: the number that error messages give to its first row.

    Example:
        >>> arrow_vectors(pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0, 4.0]), 2))
        array([[1., 2.],
               [3., 4.]])
    """
    if isinstance(column, pa.ChunkedArray):
        starts = np.cumsum([first_row, *map(len, column.chunks)])
        chunks = zip(column.chunks, starts, strict=False)
        parts = [arrow_vectors(chunk, name, int(start)) for chunk, start in chunks if len(chunk)]
        if not parts:
            raise InputError(f"{name} has no rows, expected at least one")
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    kind = column.type
    check_vector_type(kind, name)
    if column.null_count:
        missing = first_row + np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]
        raise InputError(f"{name}, row {missing}, is missing, expected a vector")
    values = column.flatten()
    if values.null_count:
        raise InputError(f"{name} has vectors with missing numbers, expected none")
    if not pa.types.is_fixed_size_list(kind):
        lengths = column.value_lengths().to_numpy()
        if len(lengths) and (lengths != lengths[0]).any():
            odd = int(np.flatnonzero(lengths != lengths[0])[0])
            found = f"{name}, row {first_row + odd}, has {counted(int(lengths[odd]), 'number')}"
            raise InputError(f"{found}, expected {lengths[0]}, as in row {first_row}")
    return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)


def check_vector_type(kind: Any, name: str) -> None:
    """Raise an `InputError` unless an Arrow type is that of lists of numbers."""
    if not _is_list(kind) or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise InputError(f"{name} is an Arrow column of {kind}, expected lists of numbers")


def as_column(values: Any) -> Any:
    """Convert a Series of lists or arrays, from pandas or polars, to an Arrow column; return anything else as it is.

    A DataFrame whose only column holds lists or arrays stands for that column.

    Example:
        >>> as_column(np.array([[1.0, 2.0], None], dtype=object)).type
        ListType(list<item: double>)
    """
    shape: Any = getattr(values, "shape", ())
    if len(shape) == 2 and shape[1] == 1 and hasattr(values, "columns") and not isinstance(values, pa.Table):
        column = as_column(values[values.columns[0]])
        return column if isinstance(column, pa.Array | pa.ChunkedArray) and _is_list(column.type) else values
    if len(shape) != 1:
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
