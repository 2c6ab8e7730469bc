"""Opening `Features`: memory-mapped, checked, never trusted."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nonneg.durable import read_plainly
from nonneg.errors import InputError
from nonneg.features._checks import Array
from nonneg.features._features import Features
from nonneg.features._meta import Meta
from nonneg.features._names import NameJournal


def load(path: str | Path) -> Features:
    """Open without reading the codes; shapes, sizes and index bounds are checked."""
    folder = Path(path)
    return _while_unchanged(folder, lambda meta: _open(folder, meta))


def verify(path: str | Path) -> Features:
    """Open, then read everything: content hashes, finite values, order within rows, the journal of names.

    Raises:
        InputError: naming the file that is not what was saved.
    """
    folder = Path(path)
    return _while_unchanged(folder, lambda meta: _verified(folder, meta))


def journal(path: str | Path) -> NameJournal:
    """The journal of names of the features in a folder."""
    folder = Path(path)
    return NameJournal(folder, Meta.read(folder).codes_key())


def _while_unchanged(folder: Path, read: Callable[[Meta], Features]) -> Features:
    """A writer may replace the features between our reading `meta.json` and its files: then read again."""
    while True:
        meta = Meta.read(folder)
        try:
            return read(meta)
        except InputError:
            if Meta.read(folder) == meta:
                raise


def _open(folder: Path, meta: Meta) -> Features:
    samples, features = meta.shape
    for entry in meta.files.values():
        path = folder / entry["file"]
        with read_plainly(path):
            found = path.stat().st_size
        if not path.is_file() or found != entry["bytes"]:
            raise InputError(f"{path} is damaged: it has {found:,} bytes, expected {entry['bytes']:,}")
    codes = _open_csr(folder, meta) if meta.layout == "csr" else _open_array(folder, meta, "codes", "efd", meta.shape)
    labels = None
    if "labels" in meta.files:
        labels = _open_array(folder, meta, "labels", "l", (samples,))
        if labels.min() < -1 or (meta.label_names and labels.max() >= len(meta.label_names)):
            raise _damaged(folder, meta, "labels", "a label has no name")
    table = _open_samples(folder, meta) if "samples" in meta.files else pa.table({})
    names = {f: n for f, n in NameJournal(folder, meta.codes_key()).current().items() if 0 <= f < features}
    return Features._opened(codes, labels, meta.label_names, table, names, meta.provenance)


def _verified(folder: Path, meta: Meta) -> Features:
    features = _open(folder, meta)
    for name, entry in meta.files.items():
        path = folder / entry["file"]
        with read_plainly(path), path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != entry["sha256"]:
            raise _damaged(folder, meta, name, "it is not what was saved (SHA-256 differs)")
    codes = features.codes
    if not np.isfinite(codes.data if features.is_sparse else codes).all():
        raise InputError(f"{folder} holds NaN or infinite values, expected finite ones")
    if features.is_sparse:
        unmarked = sp.csr_array((codes.data, codes.indices, codes.indptr), shape=codes.shape)
        if not unmarked.has_canonical_format:
            raise InputError(f"{folder} holds rows whose entries are out of order or repeated")
    names = NameJournal(folder, meta.codes_key())
    _, damaged = names.read()
    if damaged:
        raise InputError(f"{names.path} is damaged: line {damaged[0]} is not a feature's name")
    return features


def _damaged(folder: Path, meta: Meta, name: str, what: str) -> InputError:
    return InputError(f"{folder / meta.files[name]['file']} is damaged: {what}")


def _open_array(folder: Path, meta: Meta, name: str, kinds: str, shape: tuple[int, ...]) -> Array:
    path = folder / meta.files[name]["file"]
    try:
        with read_plainly(path):
            array: Array = np.lib.format.open_memmap(path, mode="r")
    except InputError:
        raise
    except Exception as error:  # a damaged header can make NumPy raise nearly anything
        raise _damaged(folder, meta, name, "it is not a plain NumPy array") from error
    if array.dtype.char not in kinds or not array.dtype.isnative or array.shape != shape:
        raise _damaged(folder, meta, name, f"it holds {array.dtype} of shape {array.shape}, expected shape {shape}")
    return array.view(np.ndarray)


def _open_csr(folder: Path, meta: Meta) -> Any:
    samples, features = meta.shape
    indptr = _open_array(folder, meta, "indptr", "il", (samples + 1,))
    entries = int(indptr[-1])
    if indptr[0] != 0 or entries < 0 or (indptr[1:] < indptr[:-1]).any():
        raise _damaged(folder, meta, "indptr", "row bounds do not ascend from 0")
    indices = _open_array(folder, meta, "indices", indptr.dtype.char, (entries,))
    data = _open_array(folder, meta, "data", "fd", (entries,))
    if entries and (indices.min() < 0 or indices.max() >= features):
        raise _damaged(folder, meta, "indices", f"a column lies outside 0 to {features - 1}")
    codes = sp.csr_array((data, indices, indptr), shape=meta.shape, copy=False)
    codes.has_canonical_format = True  # saved so; else SciPy reads everything to find out, or sorts a read-only map
    return codes


def _open_samples(folder: Path, meta: Meta) -> pa.Table:
    path = folder / meta.files["samples"]["file"]
    with read_plainly(path):
        mapped = pa.memory_map(str(path))
    try:
        table = pa.ipc.open_file(mapped).read_all()
        table.validate(full=True)  # offsets that point outside would crash whoever reads them
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(folder, meta, "samples", "it is not an Arrow file") from error
    columns = {"id": pa.string(), "media": pa.large_binary(), "text": pa.large_string()}
    fits = all(columns.get(field.name) == field.type for field in table.schema)
    if not fits or table.num_rows != meta.shape[0] or len(set(table.column_names)) < table.num_columns:
        raise _damaged(folder, meta, "samples", f"it holds {table.num_rows} rows of {table.column_names}")
    return table
