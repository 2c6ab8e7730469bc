"""Opening `Features`: memory-mapped, checked, never trusted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nonneg.errors import InputError
from nonneg.features._features import Features
from nonneg.features._meta import Meta
from nonneg.features._names import NameJournal
from nonneg.payload import checked_content, damaged, open_array, open_table

_COLUMNS = {"id": pa.string(), "media": pa.large_binary(), "text": pa.large_string()}


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
    if meta.layout == "csr":
        codes = _open_csr(folder, meta)
    else:
        codes = open_array(folder, meta.files["codes"], ("float16", "float32", "float64"), meta.shape)
    labels = None
    if "labels" in meta.files:
        labels = open_array(folder, meta.files["labels"], ("int64",), (samples,))
        if labels.min() < -1 or (meta.label_names and labels.max() >= len(meta.label_names)):
            raise _damaged(folder, meta, "labels", "a label has no name")
    table = pa.table({})
    if "samples" in meta.files:
        table = open_table(folder, meta.files["samples"], _COLUMNS, samples)
    names = {f: n for f, n in NameJournal(folder, meta.codes_key()).current().items() if 0 <= f < features}
    return Features._opened(codes, labels, meta.label_names, table, names, meta.provenance)


def _verified(folder: Path, meta: Meta) -> Features:
    features = _open(folder, meta)
    for entry in meta.files.values():
        checked_content(folder, entry)
    codes = features.codes
    if not np.isfinite(codes.data if features.is_sparse else codes).all():
        raise InputError(f"{folder} holds NaN or infinite values, expected finite ones")
    if features.is_sparse:
        unmarked = sp.csr_array((codes.data, codes.indices, codes.indptr), shape=codes.shape)
        if not unmarked.has_canonical_format:
            raise InputError(f"{folder} holds rows whose entries are out of order or repeated")
    names = NameJournal(folder, meta.codes_key())
    _, unreadable = names.read()
    if unreadable:
        raise damaged(names.path, f"line {unreadable[0]} is not a feature's name")
    return features


def _damaged(folder: Path, meta: Meta, name: str, what: str) -> InputError:
    return damaged(folder / meta.files[name]["file"], what)


def _open_csr(folder: Path, meta: Meta) -> Any:
    samples, features = meta.shape
    indptr = open_array(folder, meta.files["indptr"], ("int32", "int64"), (samples + 1,))
    entries = int(indptr[-1])
    if indptr[0] != 0 or entries < 0 or (indptr[1:] < indptr[:-1]).any():
        raise _damaged(folder, meta, "indptr", "row bounds do not ascend from 0")
    indices = open_array(folder, meta.files["indices"], (indptr.dtype.name,), (entries,))
    data = open_array(folder, meta.files["data"], ("float32", "float64"), (entries,))
    if entries and (indices.min() < 0 or indices.max() >= features):
        raise _damaged(folder, meta, "indices", f"a column lies outside 0 to {features - 1}")
    codes = sp.csr_array((data, indices, indptr), shape=meta.shape, copy=False)
    codes.has_canonical_format = True  # saved so; else SciPy reads everything to find out, or sorts a read-only map
    return codes
