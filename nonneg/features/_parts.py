"""`Features` written in parts, by many processes or machines that share a folder, and opened as one without a copy.

Each part writes its arrays into the folder, under names made from their content: a part that is written twice, because
its process was killed, changes nothing. `commit_parts` then writes what depends on all parts and `meta.json`.
"""

import ctypes
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.features._features import Features
from nonneg.features._meta import Meta
from nonneg.labels import UNLABELLED, label_numbers
from nonneg.payload import Array, Entry, open_array, open_table, write_array, write_file, write_table

_PAGE = 4096  # bytes: an array begins and, except for the last part's, ends at a page, so that parts can be joined
_ENTRIES = _PAGE // 4  # stored entries that fill whole pages, for values of 4 bytes and indices of 4 or 8
_FIXED = 0x10  # MAP_FIXED of Linux and macOS, which Python does not name
_INDEX = {4: np.int32, 8: np.int64}


COLUMNS = {"id": pa.string(), "media": pa.large_binary(), "text": pa.large_string()}
"""The columns that a table of samples may have."""


@dataclass(frozen=True)
class Part:
    """What a process tells about the part that it has written."""

    shape: tuple[int, int]
    label_names: tuple[str, ...]
    files: dict[str, Entry]


def write_part(features: Features, folder: Path, index_bytes: int = 4) -> Part:
    """Write some samples of features that are larger than one process's share; codes are stored as CSR in float32.

    Args:
        features: codes, and any of ids, labels, texts and encoded images.
        folder: a folder that all processes see.
        index_bytes: 8 if all parts together may store 2³¹ entries or more, otherwise 4.
    """
    codes = _filled(sp.csr_array(features.codes, dtype=np.float32))
    files = {name: _write_pages(folder, name, array) for name, array in (
        ("data", codes.data),
        ("indices", codes.indices.astype(_INDEX[index_bytes])),
    )}  # fmt: skip
    files["indptr"] = write_array(folder, "indptr", codes.indptr.astype(np.int64))
    if features.labels is not None:
        files["labels"] = write_array(folder, "labels", features.labels)
    if features.samples.num_columns:
        files["samples"] = write_table(folder, "samples", features.samples)
    return Part(features.shape, features.label_names, files)


def commit_parts(folder: Path, parts: Sequence[Part], provenance: dict[str, Any]) -> Features:
    """Make features of parts, in this order, and open them. The caller holds the folder's lock."""
    if not parts:
        raise InputError("there are no parts, expected at least one")
    first = parts[0]
    for number, part in enumerate(parts):
        if part.shape[1] != first.shape[1] or set(part.files) != set(first.files):
            raise InputError(
                f"part {number} has {part.shape[1]} features and the files {', '.join(part.files)}, expected those of"
                f" part 0: {first.shape[1]}, {', '.join(first.files)}"
            )
    files = {
        f"{name}.{i}": part.files[name] for i, part in enumerate(parts) for name in part.files if name in _IN_PARTS
    }
    _check_ids(folder, parts)
    rows = sum(part.shape[0] for part in parts)
    bounds, start = [np.zeros(1, np.int64)], 0
    for part in parts:
        own = open_array(folder, part.files["indptr"], ("int64",), (part.shape[0] + 1,))
        bounds.append(own[1:] + start)
        start += int(own[-1])
    index = open_array(folder, first.files["indices"], ("int32", "int64"), (None,)).dtype
    files["indptr"] = write_array(folder, "indptr", np.concatenate(bounds).astype(index))
    names = first.label_names
    if "labels" in first.files:
        labels = [open_array(folder, part.files["labels"], ("int64",), part.shape[:1]) for part in parts]
        names, labels = _with_the_same_names(parts, labels)
        files["labels"] = write_array(folder, "labels", np.concatenate(labels))
    Meta("csr", (rows, first.shape[1]), names, provenance, files).commit(folder)
    return Features.load(folder)


def _with_the_same_names(parts: Sequence[Part], labels: list[Array]) -> tuple[tuple[str, ...], list[Array]]:
    """Return the names of the labels of all parts, and the labels numbered by them: a part may lack some classes."""
    if all(part.label_names == parts[0].label_names for part in parts):
        return parts[0].label_names, labels
    _, names = label_numbers([name for part in parts for name in part.label_names])
    place = {name: number for number, name in enumerate(names)}
    # Label -1, of unlabelled samples, takes the last entry.
    maps = (np.array([*(place[name] for name in part.label_names), UNLABELLED]) for part in parts)
    return names, [of[own] for of, own in zip(maps, labels, strict=True)]


_IN_PARTS = ("data", "indices", "samples")


def _check_ids(folder: Path, parts: Sequence[Part]) -> None:
    """Check that ids differ over all parts, each of which knows only its own."""
    tables = [
        open_table(folder, part.files["samples"], COLUMNS, part.shape[0]) for part in parts if "samples" in part.files
    ]
    if tables and "id" in tables[0].column_names:
        ids = pa.chunked_array([chunk for table in tables for chunk in table["id"].chunks])
        if pc.count_distinct(ids).as_py() < len(ids):
            raise InputError("ids: some parts have the same, expected a different id for each sample")


def open_parts(folder: Path, entries: Sequence[Entry], kinds: tuple[str, ...], length: int) -> Array:
    """Map the arrays of all parts as one array `(length,)`; they are copied only where pages cannot be joined."""
    arrays = [open_array(folder, entry, kinds, (None,)) for entry in entries]
    if len({array.dtype for array in arrays}) > 1 or sum(map(len, arrays)) != length:
        raise InputError(f"{folder} is damaged: its parts hold {sum(map(len, arrays))} entries, expected {length}")
    if len(arrays) == 1:
        return arrays[0]
    fills_pages = all(array.nbytes % _PAGE == 0 for array in arrays[:-1])
    # A file of another origin may have a shorter header: its data would be mapped from the wrong place.
    starts_on_page = all(
        entry["bytes"] - array.nbytes == _PAGE for entry, array in zip(entries, arrays, strict=True) if len(array)
    )
    if not length or not starts_on_page or not fills_pages or mmap.PAGESIZE > _PAGE or not hasattr(mmap, "MAP_PRIVATE"):
        return np.concatenate(arrays)
    paths = [folder / entry["file"] for entry, array in zip(entries, arrays, strict=True) if len(array)]
    return _mapped(paths, [array.nbytes for array in arrays if len(array)], arrays[0].dtype)


def _mapped(paths: Sequence[Path], sizes: Sequence[int], dtype: Any) -> Array:
    """Map files one behind the other: first the whole space, then every file over its share of it."""
    # The space is unmapped as a whole when the last array on it is gone.
    space = mmap.mmap(-1, sum(sizes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    address = np.frombuffer(space, np.uint8).ctypes.data
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    at = address
    for path, size in zip(paths, sizes, strict=True):
        with read_errors_as_input_errors(path), path.open("rb") as file:
            found = system.mmap(
                ctypes.c_void_p(at),
                ctypes.c_size_t(size),
                mmap.PROT_READ,
                mmap.MAP_PRIVATE | _FIXED,
                file.fileno(),
                ctypes.c_int64(_PAGE),
            )
        if found != at:
            raise InputError(f"{path} cannot be mapped: system error {ctypes.get_errno()}")
        at += size
    return np.frombuffer(space, dtype)


def _write_pages(folder: Path, name: str, array: Array) -> Entry:
    """Write an array behind a header of one page, which NumPy reads like any other."""

    def write(file: IO[bytes]) -> None:
        fields = f"{{'descr': '{array.dtype.str}', 'fortran_order': False, 'shape': {array.shape}, }}"
        header = b"\x93NUMPY\x01\x00" + struct.pack("<H", _PAGE - 10) + fields.encode().ljust(_PAGE - 11) + b"\n"
        file.write(header)
        file.write(np.ascontiguousarray(array).data)

    return write_file(folder, name, "npy", write)


def _filled(codes: Any) -> Any:
    """Store zeros in the last rows until the entries fill whole pages; without enough room for them, change nothing."""
    codes.sort_indices()
    missing, row, rows = -codes.nnz % _ENTRIES, codes.shape[0], []
    while missing and row:
        row -= 1
        start, stop = codes.indptr[row : row + 2]
        used, values = codes.indices[start:stop], codes.data[start:stop]
        free = np.setdiff1d(np.arange(codes.shape[1], dtype=used.dtype), used)[:missing]
        columns = np.concatenate((used, free))
        order = np.argsort(columns)
        rows.append((columns[order], np.concatenate((values, np.zeros(len(free), values.dtype)))[order]))
        missing -= len(free)
    if missing or not rows:
        return codes
    start, rows = codes.indptr[row], rows[::-1]
    indptr = codes.indptr.copy()
    indptr[row + 1 :] = start + np.cumsum([len(columns) for columns, _ in rows])
    indices = np.concatenate([codes.indices[:start], *(columns for columns, _ in rows)])
    data = np.concatenate([codes.data[:start], *(values for _, values in rows)])
    return sp.csr_array((data, indices, indptr), shape=codes.shape)
