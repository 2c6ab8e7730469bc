"""Arrays and columns in files of many kinds, by path, or by path and name: `file.npz:title`, `news.csv:2`."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import one_line
from nonneg.tables._vectors import as_float32, open_parquet, parquet_vectors, vector_columns
from nonneg.tables._written import csv_column, csv_vectors, open_csv, read_lines

_KINDS = ".npy, .npz, .safetensors, .parquet or .csv"
_ARRAY, _ZIP = b"\x93NUMPY", b"PK"  # how .npy and .npz begin


def split_name(given: str) -> tuple[Path, str | None]:
    """The file, and the name behind the last colon, if what comes before it is a file.

    Example:
        >>> split_name("vectors.npy")
        (PosixPath('vectors.npy'), None)
    """
    path, colon, name = given.rpartition(":")
    if colon and name and not Path(given).exists():
        return Path(path), name
    return Path(given), None


def open_vectors(given: str, progress: bool = True) -> Any:
    """Vectors `(rows, width)` in a file, memory-mapped where the file allows it.

    Args:
        given: the path of a .npy, .npz, .safetensors, .parquet or .csv file, followed by a colon and the name of
            the array, tensor or column where there are several. Parquet is copied once to a file that can be
            memory-mapped, in the cache folder. Of CSV all columns but `id` and a nameless first one are taken.
        progress: say on a terminal that another process is being waited for.

    Raises:
        InputError: naming the file, what was found and what was expected.
    """
    path, name = split_name(given)
    _require_file(path)
    kind = path.suffix.lower()
    if kind == ".parquet":
        columns = vector_columns(path)
        vectors = parquet_vectors(path, columns[_chosen(path, name, columns, "column of vectors")], progress)
    elif kind == ".csv":
        _refuse_name(path, name, "is taken whole")
        vectors = as_float32(csv_vectors(open_csv(path)))
    elif kind == ".safetensors":
        vectors = _tensor(path, name)
    elif kind in (".npy", ".npz"):
        vectors = _numpy(path, name, 2)
    else:
        raise InputError(f"{path} has no known kind of vectors, expected {_KINDS}")
    if vectors.ndim != 2 or 0 in vectors.shape or vectors.dtype.kind not in "fiu":
        raise InputError(f"{given} holds {vectors.dtype} of shape {vectors.shape}, expected numbers (rows, width)")
    return vectors


def ids_within(given: str) -> str | None:
    """Where the ids of these vectors are, as `read_column` takes it: the column `id` of a CSV file. None for none."""
    path, _ = split_name(given)
    if path.suffix.lower() != ".csv":
        return None
    _require_file(path)
    return next((f"{path}:{name}" for name in open_csv(path).names if name.lower() == "id"), None)


def read_column(given: str, rows: int | None = None, beside: str = "the vectors", as_text: bool = False) -> Any:
    """One value a row: a 1-D array from .npy or .npz, a column of .csv or .parquet, or the lines of a .txt file.

    Args:
        given: the path, followed by a colon and a name where there are several arrays or columns.
        rows: how many there must be; any number if left out.
        beside: what it is that has so many rows.
        as_text: of CSV the values as they are written, where numbers would become numbers.
    """
    path, name = split_name(given)
    _require_file(path)
    kind, header = path.suffix.lower(), ""
    if kind == ".txt":
        _refuse_name(path, name, "has lines")
        values = read_lines(path)
    elif kind == ".parquet":
        file = open_parquet(path)
        names = file.schema_arrow.names
        values = _as_values(given, file.read([names[_chosen(path, name, names, "column")]]).column(0))
    elif kind == ".csv":
        table = open_csv(path)
        header = f", where {table.said()}"
        if name is None and table.has_index and len(table.names) == 2:
            position = 1
        else:
            position = _chosen(path, name, list(table.names), "column")
        values = _as_values(given, csv_column(table, position, as_text))
    elif kind in (".npy", ".npz"):
        values = np.asarray(_numpy(path, name, 1))
        if values.ndim != 1:
            raise InputError(f"{given} holds an array of shape {values.shape}, expected one value a row")
    else:
        raise InputError(f"{path} has no known kind of column, expected .txt, .csv, .parquet, .npy or .npz")
    if rows is not None and len(values) != rows:
        raise InputError(f"{given} has {len(values)} rows{header}, expected {rows}, as many as {beside}")
    return _decoded(given, values)


def _as_values(given: str, column: Any) -> Any:
    if pa.types.is_nested(column.type):
        raise InputError(f"{given} is a column of {column.type}, expected one value a row")
    return column.to_numpy() if not pa.types.is_string(column.type) else np.array(column.to_pylist(), dtype=object)


def _decoded(given: str, values: Any) -> Any:
    """Bytes as the text they stand for."""
    if values.dtype.kind != "S" and not (values.dtype.kind == "O" and any(isinstance(v, bytes) for v in values)):
        return values
    texts: list[Any] = []
    for row, value in enumerate(values):
        try:
            texts.append(value.decode("utf-8") if isinstance(value, bytes) else value)
        except UnicodeDecodeError as error:
            raise InputError(f"{given}, row {row}, holds bytes that are no text, expected text in UTF-8") from error
    return np.array(texts, dtype=object)


def _refuse_name(path: Path, name: str | None, because: str) -> None:
    if name is not None:
        raise InputError(f"{path} {because}, but {name!r} was named in it, expected {path} alone")


def _require_file(path: Path) -> None:
    with read_errors_as_input_errors(path):
        if path.is_dir():
            raise InputError(f"{path} is a folder, expected a file")
        path.open("rb").close()


def _chosen(path: Path, name: str | None, there: list[str], what: str) -> int:
    """Which of these was named, or the only one; a number counts from 0."""
    if name is None and len(there) == 1:
        return 0
    listed = ", ".join(there[:8]) + (", …" if len(there) > 8 else "")
    if name is None:
        known = next((other for other in there if other), "0")
        raise InputError(f"{path} has several {what}s ({listed}), expected one to be named: {path}:{known}")
    if name in there:
        return there.index(name)
    if name.isdecimal() and int(name) < len(there):
        return int(name)
    raise InputError(f"{path} has no {what} {name!r}, expected one of {listed or 'none at all'}")


def _numpy(path: Path, name: str | None, dimensions: int) -> Any:
    try:
        with read_errors_as_input_errors(path), path.open("rb") as file:
            if not file.peek().startswith(_ZIP):
                _refuse_name(path, name, "holds one array")
                return np.load(path, mmap_mode="r", allow_pickle=False)
            # From an open file: of a damaged one that it opened itself NumPy leaves it to chance when it is closed.
            with np.load(file, allow_pickle=False) as loaded:
                fitting = [key for key in loaded.files if loaded[key].ndim == dimensions] if name is None else []
                there = loaded.files
                return loaded[fitting[0] if len(fitting) == 1 else there[_chosen(path, name, there, "array")]]
    except InputError:
        raise
    except Exception as error:  # damaged zips, headers and pickles each raise errors of their own
        raise InputError(f"{path} cannot be read: {_damage(path, error)}") from error


def _damage(path: Path, error: Exception) -> str:
    """What is wrong with an array's file."""
    with read_errors_as_input_errors(path), path.open("rb") as file:
        start = file.read(8)
    if not start.startswith((_ARRAY, _ZIP)):
        return f"it is no {path.suffix.lower()} file, expected one that NumPy has saved"
    said = str(error)
    if "mmap length" in said or "EOF" in said or "not a zip file" in said:
        return "it is cut short, expected the whole file"
    if "pickle" in said.lower() or "Python objects" in said:
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
