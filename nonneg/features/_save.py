"""Saving `Features`: plain arrays named by their content, committed by replacing `meta.json`."""

import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from nonneg.durable import (
    TEMPORARY_PREFIX,
    os_errors_as_input_errors,
    read_errors_as_input_errors,
    sync_folder,
    write_atomically,
)
from nonneg.errors import InputError
from nonneg.features import _names
from nonneg.features._checks import Array
from nonneg.features._features import Features
from nonneg.features._meta import META, PAYLOAD, Meta, is_features
from nonneg.features._names import NameJournal
from nonneg.payload import Entry, Hashing, single_writer, write_array, write_table


def save(features: Features, folder: Path, overwrite: bool) -> Path:
    """Write payloads under names of their own, then the names, then replace `meta.json`, which is the commit."""
    _refuse_foreign(folder, overwrite)
    layout = "csr" if features.is_sparse else "dense"
    with single_writer(folder):
        _refuse_foreign(folder, overwrite)  # again: another writer may have been first
        try:
            files = _written(features, folder)
            with os_errors_as_input_errors(folder):
                sync_folder(folder)
            # Names are bound to their codes, so those of new codes mean nothing before the commit.
            meta = Meta(layout, features.shape, features.label_names, features.provenance, files)
            names = NameJournal(folder, meta.codes_key())
            known = names.current()
            names.record({f: name for f, name in features._names.items() if known.get(f, "") != name})
            write_atomically(folder / META, meta.encoded())
        finally:
            _sweep(folder)
    return folder


def _refuse_foreign(folder: Path, overwrite: bool) -> None:
    with read_errors_as_input_errors(folder):
        if not folder.exists():
            return
        if not folder.is_dir():
            raise InputError(f"{folder} is a file, expected a folder for features or a new name")
        own = {META, _names.FILE}
        entries = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
        others = [name for name in entries if name not in own and not PAYLOAD.fullmatch(name)]
    # Beside features of ours other files may lie; without them, or with a damaged meta.json, none.
    if not is_features(folder) and (others or _is_other_json(folder / META)):
        raise InputError(
            f"{folder} holds other files ({(others or [META])[0]}), expected an empty folder or a new name"
        )
    if META in entries and not overwrite:
        raise InputError(f"{folder} holds features already; save with overwrite=True to replace them")


def _is_other_json(path: Path) -> bool:
    """Whether somebody else's `meta.json` lies there, and not a damaged one of ours."""
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return True


def _written(features: Features, folder: Path) -> dict[str, Entry]:
    arrays = _code_arrays(features)
    if features.labels is not None:
        arrays["labels"] = features.labels
    files = {name: write_array(folder, name, array) for name, array in arrays.items()}
    if features.samples.num_columns:
        files["samples"] = write_table(folder, "samples", features.samples)
    return files


def _code_arrays(features: Features) -> dict[str, Array]:
    if not features.is_sparse:
        return {"codes": features.codes}
    csr = features.codes
    # SciPy wants one index type for both; a smaller one halves the file and spares a copy at opening.
    index = np.int32 if max(csr.nnz, csr.shape[1]) < 2**31 else np.int64
    parts = {"indices": csr.indices.astype(index, copy=False), "indptr": csr.indptr.astype(index, copy=False)}
    return {"data": csr.data, **parts}


def codes_key(features: Features) -> str:
    """What features go by in a folder, also of features that were never saved: a digest of their codes.

    Example:
        >>> import tempfile
        >>> from nonneg.features import journal
        >>> features = Features(np.eye(3, dtype=np.float32))
        >>> codes_key(features) == journal(features.save(tempfile.mkdtemp())).codes
        True
    """
    files = {}
    with Path(os.devnull).open("wb") as nowhere:
        for name, array in _code_arrays(features).items():
            hashing = Hashing(nowhere)
            np.lib.format.write_array(hashing, array, allow_pickle=False)
            files[name] = {"sha256": hashing.sha256.hexdigest()}
    return Meta("csr" if features.is_sparse else "dense", features.shape, (), {}, files).codes_key()


def _sweep(folder: Path) -> None:
    """Remove what no `meta.json` names: leftovers of a crash, a failure, or of the features before."""
    with suppress(OSError):
        unnamed = {path for path in folder.iterdir() if PAYLOAD.fullmatch(path.name)}
        try:
            unnamed -= {folder / entry["file"] for entry in Meta.read(folder).files.values()}
        except InputError:
            if (folder / META).exists():  # damaged: what it named cannot be told, and may be all there is
                unnamed = set()
        for path in unnamed | set(folder.glob(f"{TEMPORARY_PREFIX}*")):
            path.unlink(missing_ok=True)
