"""Opening `Features` from a folder: memory-mapped, and checked before anything is used."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nonneg.errors import InputError
from nonneg.features._checks import MOST_LABELS
from nonneg.features._features import Features
from nonneg.features._meta import Meta
from nonneg.features._names import NameJournal
from nonneg.features._parts import COLUMNS, open_parts
from nonneg.features._pixels import is_image_batch
from nonneg.features._suggested import check_computed, read_suggestions
from nonneg.payload import Array, checked_content, damaged, open_array, open_table


def load(folder: Path) -> Features:
    """Open a folder, checking shapes, sizes and index bounds; the values of the codes are not read."""
    return Meta.read_consistently(folder, lambda meta: _open(folder, meta))


def verify(path: str | Path) -> Features:
    """Open a folder and read everything: content hashes, finite values, order within rows, the journal of names.

    Raises:
        InputError: naming the file that is not what was saved.
    """
    folder = Path(path)
    return Meta.read_consistently(folder, lambda meta: _verified(folder, meta))


def journal(path: str | Path) -> NameJournal:
    """Return the journal of names of the features in a folder."""
    folder = Path(path)
    return NameJournal(folder, Meta.read(folder).codes_key())


def _open(folder: Path, meta: Meta) -> Features:
    samples, features = meta.shape
    if meta.layout == "csr":
        codes = _open_csr(folder, meta)
    else:
        codes = open_array(folder, meta.files["codes"], ("float16", "float32", "float64"), meta.shape)
    table = pa.table({})
    if entries := meta.parts("samples"):
        tables = [open_table(folder, entry, COLUMNS, None) for entry in entries]
        try:
            table = pa.concat_tables(tables)
        except pa.ArrowInvalid as error:
            raise damaged(folder, "the samples of its parts have different columns") from error
        if table.num_rows != samples:
            raise damaged(folder, f"its samples are {table.num_rows}, expected {samples}")
    names = {f: n for f, n in NameJournal(folder, meta.codes_key()).current().items() if 0 <= f < features}
    return Features._from_parts(
        _codes=codes,
        _samples=table,
        _pixels=_open_pixels(folder, meta, table),
        _pixel_rows=None,
        _label_names=meta.label_names,
        _labels=_open_labels(folder, meta),
        _names=names,
        _suggestions=read_suggestions(folder, meta.codes_key(), features),
        _provenance=meta.provenance,
        _codes_key=meta.codes_key(),
    )


def _open_labels(folder: Path, meta: Meta) -> Array | None:
    if "labels" not in meta.files:
        return None
    labels = open_array(folder, meta.files["labels"], ("int64",), meta.shape[:1])
    if labels.min() < -1 or labels.max() >= (len(meta.label_names) or MOST_LABELS):
        raise _damaged(folder, meta, "labels", "a label has no name")
    return labels


def _open_pixels(folder: Path, meta: Meta, table: pa.Table) -> Array | None:
    if "pixels" not in meta.files:
        return None
    pixels = open_array(folder, meta.files["pixels"], ("uint8",), (meta.shape[0], None, None, None))
    if not is_image_batch(pixels) or "media" in table.column_names:
        found = f"shape {pixels.shape}{' beside encoded images' if 'media' in table.column_names else ''}"
        raise _damaged(folder, meta, "pixels", f"it has {found}, expected images of 1 to 4 channels and no others")
    return pixels


def _open_csr(folder: Path, meta: Meta) -> Any:
    samples, features = meta.shape
    indptr = open_array(folder, meta.files["indptr"], ("int32", "int64"), (samples + 1,))
    entries = int(indptr[-1])
    if indptr[0] != 0 or entries < 0 or (indptr[1:] < indptr[:-1]).any():
        raise _damaged(folder, meta, "indptr", "row bounds do not ascend from 0")
    indices = open_parts(folder, meta.parts("indices"), (indptr.dtype.name,), entries)
    data = open_parts(folder, meta.parts("data"), ("float32", "float64"), entries)
    if entries and (indices.min() < 0 or indices.max() >= features):
        raise damaged(folder, f"a column of its codes lies outside 0 to {features - 1}")
    codes = sp.csr_array(meta.shape, dtype=data.dtype)
    codes.data, codes.indices, codes.indptr = data, indices, indptr  # the constructor would copy 8-byte indices
    # They were saved in canonical format; otherwise SciPy would read everything to find out.
    codes.has_canonical_format = True
    return codes


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
    check_computed(folder, meta.codes_key(), meta.shape)
    return features


def _damaged(folder: Path, meta: Meta, name: str, what: str) -> InputError:
    return damaged(folder / meta.files[name]["file"], what)
