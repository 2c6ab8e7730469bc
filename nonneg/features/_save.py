"""Saving `Features`: plain arrays named after their content, committed by replacing `meta.json`."""

import os
from pathlib import Path
from typing import Literal

import numpy as np

from nonneg.durable import folder_lock
from nonneg.features._features import Features
from nonneg.features._meta import Meta
from nonneg.features._names import NameJournal
from nonneg.features._suggested import write_suggestions
from nonneg.payload import Array, Entry, Hashing, write_array, write_table


def save(features: Features, folder: Path, overwrite: bool) -> Path:
    """Write all arrays and tables, then the names, then replace `meta.json`, which is the commit."""
    Meta.check_writable(folder, overwrite)
    with folder_lock(folder):
        Meta.check_writable(folder, overwrite)  # again: another process may have written in the meantime
        try:
            files = _write_payloads(features, folder)
            # Names are bound to their codes: those of the new codes do not apply before the commit.
            meta = Meta(_layout(features), features.shape, features.label_names, features.provenance, files)
            names = NameJournal(folder, meta.codes_key())
            known = names.current()
            names.record({f: name for f, name in features._names.items() if known.get(f, "") != name})
            if features.suggestions:
                write_suggestions(folder, meta.codes_key(), features.suggestions)
            meta.commit(folder)
        finally:
            Meta.remove_leftovers(folder)
    return folder


def _write_payloads(features: Features, folder: Path) -> dict[str, Entry]:
    others = {"labels": features.labels, "pixels": features.pixels}
    arrays = _code_arrays(features) | {name: array for name, array in others.items() if array is not None}
    files = {name: write_array(folder, name, array) for name, array in arrays.items()}
    if features.samples.num_columns:
        files["samples"] = write_table(folder, "samples", features.samples)
    return files


def _layout(features: Features) -> Literal["csr", "dense"]:
    return "csr" if features.is_sparse else "dense"


def _code_arrays(features: Features) -> dict[str, Array]:
    if not features.is_sparse:
        return {"codes": features.codes}
    csr = features.codes
    # SciPy wants the same dtype for indices and indptr; the smaller one halves the file and opens without a copy.
    index = np.int32 if max(csr.nnz, csr.shape[1]) < 2**31 else np.int64
    return {"data": csr.data} | {name: getattr(csr, name).astype(index, copy=False) for name in ("indices", "indptr")}


def codes_key(features: Features) -> str:
    """Return the digest of the codes that identifies features in a folder, also for features never saved.

    Example:
        >>> import tempfile
        >>> from nonneg.features import journal
        >>> features = Features(np.eye(3, dtype=np.float32))
        >>> codes_key(features) == journal(features.save(tempfile.mkdtemp())).codes
        True
    """
    if "_codes_key" in features.__dict__:  # opened from a folder; codes in parts have other files than whole ones
        return str(features.__dict__["_codes_key"])
    files = {}
    with Path(os.devnull).open("wb") as nowhere:
        for name, array in _code_arrays(features).items():
            hashing = Hashing(nowhere)
            np.lib.format.write_array(hashing, array, allow_pickle=False)
            files[name] = {"file": name, "bytes": hashing.bytes, "sha256": hashing.sha256.hexdigest()}
    return Meta(_layout(features), features.shape, (), {}, files).codes_key()
