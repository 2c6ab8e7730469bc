"""Arrays and columns in files of many formats, by path, or by path and name: `file.npz:title`, `news.csv:2`."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nonneg.durable import check_regular_file, read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import counted, one_line
from nonneg.tables._vectors import (
    as_floats,
    columnar_vectors,
    list_columns,
    open_columnar,
)
from nonneg.tables._written import csv_column, csv_vectors, open_csv, read_json_lines, read_lines

_FORMATS = ".npy, .npz, .safetensors, .parquet, .arrow, .feather or .csv"
_COLUMNAR = (".parquet", ".arrow", ".feather")
ROW_NAMES = re.compile(r"__index_level_\d+__")
"""The names of columns in which pandas writes row names to Parquet."""
_SPARSE = {"format", "shape", "data"}  # arrays in every file of scipy.sparse.save_npz
_ARRAY, _ZIP = b"\x93NUMPY", b"PK"  # the first bytes of .npy and .npz


def split_name(given: str) -> tuple[Path, str | None]:
    """Split `file:name` at the last colon; the name is None if the whole string is a path.

    Example:
        >>> split_name("vectors.npy")
        (PosixPath('vectors.npy'), None)
    """
    path, colon, name = given.rpartition(":")
    if colon and name and not os.path.exists(given):  # noqa: PTH110 (Path's method raises for a long name)
        return Path(path), name
    return Path(given), None


def open_vectors(given: str, progress: bool = True, one: bool = False, beside: Iterable[str | None] = ()) -> Any:
    """Open vectors `(rows, width)` in a file, memory-mapped if the format allows it.

    Args:
        given: the path of a .npy, .npz, .safetensors, .parquet, .arrow, .feather or .csv file. If it holds several
            arrays, tensors or columns of vectors, a colon and the name of one follow. Parquet and Arrow are copied once
            to the cache folder, in a format that can be memory-mapped. If each column holds one number per row, as in
            CSV files, all columns make up the vector, except for `id`, row numbers and those in `beside`.
        progress: report on a terminal when another process has to finish first.
        one: accept an array of one dimension as a single vector.
        beside: what is read by `read_column` along with the vectors, such as `vectors.csv:label`; None is ignored.

    Raises:
        InputError: naming the file, what was found and what was expected.
    """
    path, name = split_name(given)
    check_regular_file(path)
    kind = path.suffix.lower()
    if kind in _COLUMNAR:
        if columns := list_columns(path):
            columns = [columns[_chosen(path, name, columns, "column of vectors")]]
        else:
            if name is not None:
                raise InputError(
                    f"{path} has no column of lists of numbers, so {name!r} names no column of vectors; without a name,"
                    " all columns of numbers make up the vector"
                )
            names = column_names(path)
            columns = [names[i] for i in _parts_of_vectors(path, names, beside)]
        vectors = columnar_vectors(path, columns, progress)
    elif kind == ".csv":
        _check_no_name(path, name, "is read as a whole")
        table = open_csv(path)
        vectors = as_floats(csv_vectors(table, _parts_of_vectors(path, table.names, beside)))
    elif kind == ".safetensors":
        vectors = _tensor(path, name)
    elif kind in (".npy", ".npz"):
        vectors = _numpy(path, name, 2)
    else:
        raise InputError(f"{path} has the suffix {path.suffix!r}, expected a file of vectors: {_FORMATS}")
    vectors = vectors[None] if one and vectors.ndim == 1 else vectors
    if vectors.ndim != 2 or 0 in vectors.shape or vectors.dtype.kind not in "fiu":
        raise InputError(f"{given} holds {vectors.dtype} of shape {vectors.shape}, expected numbers (rows, width)")
    return vectors


def ids_within(given: str) -> str | None:
    """The column `id` of a table with one number per column, for `read_column`; None if there is none."""
    path, _ = split_name(given)
    kind = path.suffix.lower()
    if kind not in (".csv", *_COLUMNAR) or (kind in _COLUMNAR and list_columns(path)):
        return None
    return next((f"{path}:{name}" for name in column_names(path) if _is_id(name)), None)


def read_column(given: str, rows: int | None = None, beside: str = "the vectors", as_text: bool = False) -> Any:
    """Read one value per row: a 1-D array of .npy or .npz, a column of a table, or lines of .txt.

    Args:
        given: the path. If the file holds several arrays or columns, a colon and the name of one follow.
        rows: the expected number of rows; any number by default.
        beside: what has that number of rows, for error messages.
        as_text: read the values of a CSV file as they are written, without converting them to numbers.
    """
    path, name = split_name(given)
    check_regular_file(path)
    kind, header = path.suffix.lower(), ""
    if kind == ".txt":
        _check_no_name(path, name, "is read line by line")
        values = read_lines(path)
    elif kind in _COLUMNAR:
        file = open_columnar(path)
        values = _as_values(given, file.read(file.schema.names[_position(path, name, file.schema.names)]))
    elif kind == ".csv":
        table = open_csv(path)
        header = f", where {table.first_line()}"
        values = _as_values(given, csv_column(table, _position(path, name, table.names), as_text))
    elif kind == ".jsonl":
        rows_of_file, names = read_json_lines(path)
        key = names[_chosen(path, name, names, "column")]
        values = np.fromiter((row.get(key) for row in rows_of_file), object, len(rows_of_file))
    elif kind in (".npy", ".npz"):
        values = np.asarray(_numpy(path, name, 1))
        if values.ndim != 1:
            raise InputError(f"{given} holds an array of shape {values.shape}, expected one value per row")
    else:
        raise InputError(
            f"{path} has the suffix {path.suffix!r}, expected .txt, .csv, .jsonl, .npy, .npz or {', '.join(_COLUMNAR)}"
        )
    if rows is not None and len(values) != rows:
        raise InputError(f"{given} has {counted(len(values), 'row')}{header}, expected {rows}, as in {beside}")
    return _decoded(given, values)


def column_names(path: Path) -> list[str]:
    """Names of the columns of a .csv, .jsonl, Parquet or Arrow file; none for files of other kinds."""
    check_regular_file(path)
    kind = path.suffix.lower()
    if kind == ".csv":
        return list(open_csv(path).names)
    if kind == ".jsonl":
        return read_json_lines(path)[1]
    return list(open_columnar(path).schema.names) if kind in _COLUMNAR else []


def _parts_of_vectors(path: Path, names: Sequence[str], beside: Iterable[str | None]) -> list[int]:
    """The positions of the columns that make up the vectors of a table with one number per column."""
    others = [split_name(other) for other in beside if other is not None]
    known = {_position(path, name, names) for other, name in others if other.resolve() == path.resolve()}
    known |= {i for i, name in enumerate(names) if _is_id(name) or _is_row_name(name, i)}
    if len(known) == len(names):
        listed = ", ".join(filter(None, names))
        raise InputError(f"{path} has no column of vectors besides {listed}, expected columns of numbers")
    return [i for i in range(len(names)) if i not in known]


def _is_id(name: str) -> bool:
    return name.lower() == "id"


def _is_row_name(name: str, position: int) -> bool:
    """Whether pandas or R has written its row names as this column."""
    return (position == 0 and not name) or ROW_NAMES.fullmatch(name) is not None


def _position(path: Path, name: str | None, names: Sequence[str]) -> int:
    """The position of the named column, or of the only one besides row numbers."""
    others = [i for i, each in enumerate(names) if not _is_row_name(each, i)]
    if name is None and len(others) == 1:
        return others[0]
    return _chosen(path, name, list(names), "column")


def _as_values(given: str, column: Any) -> Any:
    if pa.types.is_nested(column.type):
        raise InputError(f"{given} is a column of {column.type}, expected one value per row")
    return column.to_numpy() if not pa.types.is_string(column.type) else np.array(column.to_pylist(), dtype=object)


def _decoded(given: str, values: Any) -> Any:
    """Decode bytes as text."""
    if values.dtype.kind != "S" and not (values.dtype.kind == "O" and any(isinstance(v, bytes) for v in values)):
        return values
    texts: list[Any] = []
    for row, value in enumerate(values):
        try:
            texts.append(value.decode("utf-8") if isinstance(value, bytes) else value)
        except UnicodeDecodeError as error:
            raise InputError(f"{given}, row {row}, holds bytes that are not text, expected text in UTF-8") from error
    return np.array(texts, dtype=object)


def _check_no_name(path: Path, name: str | None, because: str) -> None:
    if name is not None:
        raise InputError(f"{path} {because}, expected the path without the name {name!r}")


def _chosen(path: Path, name: str | None, there: list[str], what: str) -> int:
    """The position of the named one among `there`, or of the only one; a name may be a position, from 0."""
    if name is None and len(there) == 1:
        return 0
    listed = ", ".join(there[:8]) + (", …" if len(there) > 8 else "")
    if name is None:
        known = next((other for other in there if other), "0")
        raise InputError(f"{path} has more than one {what} ({listed}), expected the name of one: {path}:{known}")
    if name in there:
        return there.index(name)
    if name.isdecimal() and len(name) < 19 and int(name) < len(there):
        return int(name)
    raise InputError(f"{path} has no {what} {name!r}, expected one of {listed or 'none'}")


def _numpy(path: Path, name: str | None, dimensions: int) -> Any:
    try:
        with read_errors_as_input_errors(path), path.open("rb") as file:
            if not file.peek().startswith(_ZIP):
                _check_no_name(path, name, "holds only one array")
                return np.load(path, mmap_mode="r", allow_pickle=False)
            # NumPy does not reliably close a damaged file that it has opened itself.
            with np.load(file, allow_pickle=False) as loaded:
                if name is None and set(loaded.files) >= _SPARSE:
                    raise InputError(f"{path} holds a SciPy sparse matrix, expected a dense array")
                fitting = [key for key in loaded.files if loaded[key].ndim == dimensions] if name is None else []
                there = loaded.files
                return loaded[fitting[0] if len(fitting) == 1 else there[_chosen(path, name, there, "array")]]
    except InputError:
        raise
    except Exception as error:  # damaged zips, headers and pickles raise many types of errors
        raise InputError(f"{path} cannot be read: {_damage(path, error)}") from error


def _damage(path: Path, error: Exception) -> str:
    """Describe what is wrong with a file of arrays."""
    with read_errors_as_input_errors(path), path.open("rb") as file:
        start = file.read(8)
    if not start.startswith((_ARRAY, _ZIP)):
        return f"it is not a {path.suffix.lower()} file, expected one that NumPy saved"
    message = str(error)
    if "mmap length" in message or "EOF" in message or "not a zip file" in message:
        return "it is truncated, expected the whole file"
    if "pickle" in message.lower() or "Python objects" in message:
        return "it holds pickled Python objects, which can run code; expected plain numbers"
    return one_line(error)


def _tensor(path: Path, name: str | None) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        with read_errors_as_input_errors(path), safe_open(path, framework="pt") as file:
            there = list(file.keys())
            tensor = file.get_tensor(there[_chosen(path, name, there, "tensor")])
    except SafetensorError as error:
        raise InputError(f"{path} cannot be read as safetensors: {one_line(error)}") from error
    return (tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor).numpy()
