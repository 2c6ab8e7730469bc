"""Arrays and columns in files of many kinds, by path, or by path and name: `file.npz:title`, `news.csv:2`."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.lib.format import open_memmap

from nonneg.data._collection import one_line
from nonneg.data._place import cache_folder, locked, writing
from nonneg.durable import TEMPORARY_PREFIX, read_plainly
from nonneg.errors import InputError

_KINDS = ".npy, .npz, .safetensors, .parquet or .csv"


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
            memory-mapped, in the cache folder.
        progress: say on a terminal that another process is being waited for.

    Raises:
        InputError: naming the file, what was found and what was expected.
    """
    path, name = split_name(given)
    _require_file(path)
    kind = path.suffix.lower()
    if kind == ".parquet":
        vectors = _parquet_vectors(path, name, progress)
    elif kind == ".csv":
        vectors = _csv_vectors(path)
    elif kind == ".safetensors":
        vectors = _tensor(path, name)
    elif kind in (".npy", ".npz"):
        vectors = _numpy(path, name, 2)
    else:
        raise InputError(f"{path} has no known kind of vectors, expected {_KINDS}")
    if vectors.ndim != 2 or 0 in vectors.shape or vectors.dtype.kind not in "fiu":
        raise InputError(f"{given} holds {vectors.dtype} of shape {vectors.shape}, expected numbers (rows, width)")
    return vectors


def read_column(given: str) -> Any:
    """One value a row: a 1-D array from .npy or .npz, a column of .csv or .parquet, or the lines of a .txt file."""
    path, name = split_name(given)
    _require_file(path)
    kind = path.suffix.lower()
    if kind == ".txt":
        with read_plainly(path):
            text = path.read_bytes().decode("utf-8", "replace")
        return np.array(text.removesuffix("\n").split("\n"), dtype=object)
    if kind == ".parquet":
        names = _parquet(path).schema_arrow.names
        return _as_values(_read_parquet(path, _chosen(path, name, names, "column")))
    if kind == ".csv":
        table = _csv(path)
        column = table.column(_chosen(path, name, table.column_names, "column"))
        return _as_values(column)
    if kind in (".npy", ".npz"):
        values = np.asarray(_numpy(path, name, 1))
        if values.ndim != 1:
            raise InputError(f"{given} holds an array of shape {values.shape}, expected one value a row")
        return values
    raise InputError(f"{path} has no known kind of column, expected .txt, .csv, .parquet, .npy or .npz")


def _as_values(column: Any) -> Any:
    if pa.types.is_nested(column.type):
        raise InputError(f"a column of {column.type} was named, expected one value a row")
    return column.to_numpy() if not pa.types.is_string(column.type) else np.array(column.to_pylist(), dtype=object)


def _require_file(path: Path) -> None:
    with read_plainly(path):
        if path.is_dir():
            raise InputError(f"{path} is a folder, expected a file")
        path.open("rb").close()


def _chosen(path: Path, name: str | None, there: list[str], what: str) -> str:
    """The name that was given, or the only one; a number counts columns from 0."""
    if name is None and len(there) == 1:
        return there[0]
    listed = ", ".join(there[:8]) + (", …" if len(there) > 8 else "")
    if name is None:
        raise InputError(f"{path} has several {what}s ({listed}), expected one to be named: {path}:{there[0]}")
    if name in there:
        return name
    if name.isdecimal() and int(name) < len(there):
        return there[int(name)]
    raise InputError(f"{path} has no {what} {name!r}, expected one of {listed or 'none at all'}")


def _numpy(path: Path, name: str | None, dimensions: int) -> Any:
    try:
        with read_plainly(path):
            loaded = np.load(path, mmap_mode="r" if path.suffix.lower() == ".npy" else None, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            with loaded:
                fitting = [key for key in loaded.files if loaded[key].ndim == dimensions] if name is None else []
                chosen = fitting[0] if len(fitting) == 1 else _chosen(path, name, loaded.files, "array")
                return loaded[chosen]
    except InputError:
        raise
    except Exception as error:  # damaged zips, headers and pickles each raise errors of their own
        if "pickle" in str(error).lower() or "Python objects" in str(error):
            reason = "it holds pickled Python objects, which can run code; expected plain numbers"
        else:
            reason = one_line(error)
        raise InputError(f"{path} cannot be read: {reason}") from error


def _tensor(path: Path, name: str | None) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        with read_plainly(path), safe_open(path, framework="pt") as file:
            tensor = file.get_tensor(_chosen(path, name, list(file.keys()), "tensor"))
    except SafetensorError as error:
        raise InputError(f"{path} cannot be read as safetensors: {one_line(error)}") from error
    return (tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor).numpy()


def _csv(path: Path) -> Any:
    with read_plainly(path), path.open("rb") as file:
        first = file.readline().decode("utf-8", "replace")
    has_header = not any(_is_number(cell.strip(' "\r\n')) for cell in first.split(","))
    reading = pa.csv.ReadOptions(autogenerate_column_names=not has_header)
    try:
        return pa.csv.read_csv(path, reading, pa.csv.ParseOptions(newlines_in_values=True))
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise InputError(f"{path} cannot be read as CSV: {one_line(error)}") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _csv_vectors(path: Path) -> Any:
    table = _csv(path)
    columns = [name for name in table.column_names if name.lower() != "id"]
    for name in columns:
        column = table.column(name)
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
            raise InputError(f"{path}, column {name}, holds {column.type}, expected numbers in all columns but id")
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise InputError(f"{path}, column {name}, is empty in row {row}, expected a number")
    return np.column_stack([table.column(name).to_numpy() for name in columns]).astype(np.float32)


# Parquet: copied once to a memory map, as its rows cannot be read in any order


def _parquet(path: Path) -> Any:
    try:
        with read_plainly(path):
            return pq.ParquetFile(path, memory_map=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {one_line(error)}") from error


def _read_parquet(path: Path, column: str) -> Any:
    return _parquet(path).read([column]).column(0)


def _parquet_vectors(path: Path, name: str | None, progress: bool) -> Any:
    file = _parquet(path)
    lists = [field.name for field in file.schema_arrow if _is_list(field.type)]
    if not lists:
        raise InputError(f"{path} has no column of vectors, expected one of lists of numbers")
    column = _chosen(path, name, lists, "column of vectors")
    there = path.stat()
    key = json.dumps([str(path.resolve()), there.st_size, there.st_mtime_ns, column])
    folder = cache_folder(None) / "vectors"
    place = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.npy"
    with locked(folder, progress):
        if not place.exists():
            with writing(folder):
                _copy_to(place, path, file, column)
    return np.load(place, mmap_mode="r")


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _copy_to(place: Path, path: Path, file: Any, column: str) -> None:
    temporary = place.with_name(f"{TEMPORARY_PREFIX}{place.name}")
    target, row = None, 0
    try:
        for block in _vector_blocks(path, file, column):
            if target is None:
                shape = (file.metadata.num_rows, block.shape[1])
                kind = np.float16 if block.dtype == np.float16 else np.float32
                target = open_memmap(temporary, "w+", kind, shape)
            if block.shape[1] != target.shape[1]:
                raise InputError(
                    f"{path}, row {row}, has a vector of {block.shape[1]} numbers, expected {target.shape[1]}"
                )
            target[row : row + len(block)] = block
            row += len(block)
        if target is None:
            raise InputError(f"{path} has no rows, expected at least one")
        target.flush()
        del target
        os.replace(temporary, place)  # noqa: PTH105
    finally:
        temporary.unlink(missing_ok=True)


def _vector_blocks(path: Path, file: Any, column: str) -> Iterator[Any]:
    row = 0
    for batch in file.iter_batches(batch_size=8192, columns=[column]):
        vectors = batch.column(0)
        try:
            yield arrow_vectors(vectors)
        except InputError as error:
            raise InputError(f"{path}, rows from {row}: {error}") from error
        row += len(vectors)


def arrow_vectors(column: Any, name: str = "the column") -> Any:
    """An Arrow column of lists of numbers as an array `(rows, width)`.

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
    if not _is_list(kind) or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise InputError(f"{name} is an Arrow column of {kind}, expected lists of numbers")
    if column.null_count:
        missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]
        raise InputError(f"{name}, row {missing}, is missing, expected a vector")
    values = column.flatten()
    if values.null_count:
        raise InputError(f"{name} has missing numbers within its vectors, expected none")
    if not pa.types.is_fixed_size_list(kind):
        lengths = column.value_lengths().to_numpy()
        if len(lengths) and (lengths != lengths[0]).any():
            odd = int(np.flatnonzero(lengths != lengths[0])[0])
            raise InputError(f"{name}, row {odd}, has {lengths[odd]} numbers, expected {lengths[0]}, as the first has")
    return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
