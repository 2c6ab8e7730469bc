"""Saving `Features`: plain arrays named after their content, committed by replacing `meta.json`."""

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
from nonneg.features._features import Features
from nonneg.features._meta import META, PAYLOAD, Meta, is_features
from nonneg.features._names import NameJournal
from nonneg.payload import Array, Entry, Hashing, single_writer, write_array, write_table


def save(features: Features, folder: Path, overwrite: bool) -> Path:
    """Write all arrays and tables, then the names, then replace `meta.json`, which is the commit."""
    _check_writable(folder, overwrite)
    with single_writer(folder):
        _check_writable(folder, overwrite)  # again: another process may have written in the meantime
        try:
            files = _write_payloads(features, folder)
            with os_errors_as_input_errors(folder):
                sync_folder(folder)
            # Names are bound to their codes: those of the new codes do not apply before the commit.
            meta = Meta(_layout(features), features.shape, features.label_names, features.provenance, files)
            names = NameJournal(folder, meta.codes_key())
            known = names.current()
            names.record({f: name for f, name in features._names.items() if known.get(f, "") != name})
            write_atomically(folder / META, meta.encoded())
        finally:
            _sweep(folder)
    return folder


def _check_writable(folder: Path, overwrite: bool) -> None:
    """Raise InputError if saving into the folder would replace features or mix with other files."""
    with read_errors_as_input_errors(folder):
        if not folder.exists():
            return
        if not folder.is_dir():
            raise InputError(f"{folder} is a file, expected a folder for features or a new name")
        own = {META, _names.FILE}
        entries = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
        others = [name for name in entries if name not in own and not PAYLOAD.fullmatch(name)]
    # Other files are allowed only next to features, not in an empty folder or one with a damaged meta.json.
    if not is_features(folder) and (others or _is_json(folder / META)):
        raise InputError(
            f"{folder} holds other files ({(others or [META])[0]}), expected an empty folder or a new name"
        )
    if META in entries and not overwrite:
        raise InputError(f"{folder} holds features already; save with overwrite=True to replace them")


def _is_json(path: Path) -> bool:
    """Whether a `meta.json` that is not of features is valid: then another program wrote it."""
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return True


def _write_payloads(features: Features, folder: Path) -> dict[str, Entry]:
    others = {"labels": features.labels, "pixels": features.pixels}
    arrays = _code_arrays(features) | {name: array for name, array in others.items() if array is not None}
    files = {name: write_array(folder, name, array) for name, array in arrays.items()}
    if features.samples.num_columns:
        files["samples"] = write_table(folder, "samples", features.samples)
    return files


def _layout(features: Features) -> str:
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
    files = {}
    with Path(os.devnull).open("wb") as nowhere:
        for name, array in _code_arrays(features).items():
            hashing = Hashing(nowhere)
            np.lib.format.write_array(hashing, array, allow_pickle=False)
            files[name] = {"sha256": hashing.sha256.hexdigest()}
    return Meta(_layout(features), features.shape, (), {}, files).codes_key()


def _sweep(folder: Path) -> None:
    """Remove files that `meta.json` does not list: left by an interrupted save or by the replaced features."""
    with suppress(OSError):
        unlisted = {path for path in folder.iterdir() if PAYLOAD.fullmatch(path.name)}
        try:
            unlisted -= {folder / entry["file"] for entry in Meta.read(folder).files.values()}
        except InputError:
            if (folder / META).exists():  # damaged: any of these files may be one that it listed
                unlisted = set()
        for path in unlisted | set(folder.glob(f"{TEMPORARY_PREFIX}*")):
            path.unlink(missing_ok=True)
