"""`Features` on disk: plain arrays named by their content, and a `meta.json` whose replacement is the commit."""

import fcntl
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nonneg.durable import TEMPORARY_PREFIX, replacing, said_plainly, sync_folder, write_bytes
from nonneg.errors import InputError
from nonneg.features._features import Array, Features
from nonneg.features._names import NameJournal

META, LOCK = "meta.json", ".lock"
FORMAT, VERSION = "nonneg.features", 1
_PAYLOAD = re.compile(r"(codes|data|indices|indptr|labels|samples)-[0-9a-f]{16}\.(npy|arrow)")


def save(features: Features, folder: Path, overwrite: bool) -> Path:
    """Write payloads under names of their own, then replace `meta.json`, then sweep what it no longer names."""
    _refuse_foreign(folder, overwrite)
    with said_plainly(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with _only_writer(folder):
        files = {name: _write_payload(folder, name, write) for name, write in _payloads(features)}
        meta = {
            "format": FORMAT,
            "version": VERSION,
            "layout": "csr" if features.is_sparse else "dense",
            "shape": list(features.shape),
            "label_names": list(features.label_names),
            "provenance": dict(features.provenance),
            "files": files,
        }
        with said_plainly(folder):
            sync_folder(folder)
        write_bytes(folder / META, json.dumps(meta, indent=1, ensure_ascii=False).encode())
        journal = NameJournal(folder, _codes_key(files))
        known = journal.current()
        journal.record({f: n for f, n in features.names.items() if known.get(f) != n})
        journal.record({f: "" for f in known if f not in features.names})
        kept = {entry["file"] for entry in files.values()}
        for path in folder.iterdir():
            if path.name.startswith(TEMPORARY_PREFIX) or (_PAYLOAD.fullmatch(path.name) and path.name not in kept):
                path.unlink(missing_ok=True)
    return folder


def load(folder: Path) -> Features:
    """Open without reading the codes; shapes, sizes and index bounds are checked."""
    while True:
        meta = _Meta.read(folder)
        try:
            return _open(folder, meta)
        except InputError:
            # A writer may have replaced the features between our reading meta.json and its files.
            if _Meta.read(folder) == meta:
                raise


def verify(folder: Path) -> Features:
    """Open, then read everything: content hashes, finite values, order within rows.

    Raises:
        InputError: naming the file that is not what was saved.
    """
    features = load(folder)
    meta = _Meta.read(folder)
    for name, entry in meta.files.items():
        path = folder / entry["file"]
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != entry["sha256"]:
            raise InputError(f"{path} is damaged: its {name} are not the ones that were saved (SHA-256 differs)")
    codes = features.codes
    if not np.isfinite(codes.data if features.is_sparse else codes).all():
        raise InputError(f"{folder} holds NaN or infinite values, expected finite ones")
    if features.is_sparse and not sp.csr_array((codes.data, codes.indices, codes.indptr)).has_canonical_format:
        raise InputError(f"{folder} holds rows whose entries are out of order or repeated")
    return features


def is_features(folder: Path) -> bool:
    """Whether a folder claims to hold `Features`."""
    return (folder / META).is_file()


def journal(folder: Path) -> NameJournal:
    """The journal of names of the features in a folder."""
    return NameJournal(folder, _codes_key(_Meta.read(folder).files))


# Writing


def _refuse_foreign(folder: Path, overwrite: bool) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file, expected a folder for features or a new name")
    if is_features(folder):
        if not overwrite:
            raise InputError(f"{folder} holds features already; save with overwrite=True to replace them")
        return
    others = [p.name for p in folder.iterdir() if not (p.name.startswith(".") or _PAYLOAD.fullmatch(p.name))]
    if others:
        raise InputError(f"{folder} holds other files ({others[0]}, …), expected an empty folder or a new name")


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    with said_plainly(folder), (folder / LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder} is being written by another process; try again when it is done") from None
        yield


def _payloads(features: Features) -> Iterator[tuple[str, Callable[[Any], None]]]:
    arrays: dict[str, Array] = {}
    if features.is_sparse:
        csr = features.codes
        # SciPy wants one index type for both; a smaller one halves the file and spares a copy at opening.
        small = max(csr.nnz, csr.shape[1]) < 2**31
        index = np.int32 if small else np.int64
        arrays = {"data": csr.data, "indices": csr.indices.astype(index), "indptr": csr.indptr.astype(index)}
    else:
        arrays = {"codes": features.codes}
    if features.labels is not None:
        arrays["labels"] = features.labels
    for name, array in arrays.items():
        yield name, lambda file, array=array: np.lib.format.write_array(file, array, allow_pickle=False)  # type: ignore[misc]
    if features.samples.num_columns:
        yield "samples", lambda file: _write_samples(file, features.samples)


def _write_samples(file: Any, samples: pa.Table) -> None:
    with pa.ipc.new_file(pa.PythonFile(file, "w"), samples.schema) as writer:
        writer.write_table(samples, max_chunksize=65_536)


class _Hashing:
    """A file that hashes what passes through."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.sha256, self.bytes, self.closed = file, hashlib.sha256(), 0, False

    def write(self, chunk: Any) -> int:
        self.sha256.update(chunk)
        self.bytes += memoryview(chunk).nbytes
        return self._file.write(chunk)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self.bytes


def _write_payload(folder: Path, name: str, write: Callable[[Any], None]) -> dict[str, Any]:
    staged = folder / f"{TEMPORARY_PREFIX}{name}"
    with replacing(staged) as file:
        hashing = _Hashing(file)
        write(hashing)
    digest = hashing.sha256.hexdigest()
    final = folder / f"{name}-{digest[:16]}.{'arrow' if name == 'samples' else 'npy'}"
    with said_plainly(final):
        staged.replace(final)
    return {"file": final.name, "bytes": hashing.bytes, "sha256": digest}


# Reading


@dataclass(frozen=True)
class _Meta:
    layout: str
    shape: tuple[int, int]
    label_names: tuple[str, ...]
    provenance: dict[str, Any]
    files: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> "_Meta":
        path = folder / META
        try:
            content = json.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            state = "there is no such folder" if not folder.exists() else f"it has no {META}"
            raise InputError(f"{folder} is not a features folder: {state}") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error
        except ValueError as error:
            raise InputError(f"{path} is damaged: it is not JSON") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InputError(f"{path} is of another format, expected {FORMAT}")
        if content.get("version") != VERSION:
            raise InputError(f"{path} is of version {content.get('version')}, this nonneg reads version {VERSION}")
        try:
            samples, features = content["shape"]
            meta = cls(
                layout=content["layout"],
                shape=(samples, features),
                label_names=tuple(content["label_names"]),
                provenance=dict(content["provenance"]),
                files={name: dict(entry) for name, entry in content["files"].items()},
            )
            plain = all(
                _PAYLOAD.fullmatch(entry["file"])
                and isinstance(entry["bytes"], int)
                and isinstance(entry["sha256"], str)
                for entry in meta.files.values()
            )
            sizes = all(isinstance(n, int) and n > 0 for n in meta.shape)
            strings = all(isinstance(name, str) for name in meta.label_names)
            expected = {"csr": {"data", "indices", "indptr"}, "dense": {"codes"}}[meta.layout]
            complete = expected <= set(meta.files) <= expected | {"labels", "samples"}
        except (KeyError, TypeError, ValueError, AttributeError):
            plain = sizes = strings = complete = False
        if not (plain and sizes and strings and complete):
            raise InputError(f"{path} is damaged: its fields are not those of {FORMAT} version {VERSION}")
        return meta


def _codes_key(files: dict[str, dict[str, Any]]) -> str:
    """Names belong to these very codes."""
    parts = sorted(entry["sha256"] for name, entry in files.items() if name not in ("labels", "samples"))
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def _open(folder: Path, meta: _Meta) -> Features:
    samples, features = meta.shape
    for entry in meta.files.values():
        path = folder / entry["file"]
        found = path.stat().st_size if path.is_file() else None
        if found != entry["bytes"]:
            state = "is missing" if found is None else f"is damaged: it has {found:,} bytes"
            raise InputError(f"{path} {state}, expected {entry['bytes']:,} bytes")
    codes = _open_csr(folder, meta) if meta.layout == "csr" else _open_array(folder, meta, "codes", "efd", meta.shape)
    labels = None
    if "labels" in meta.files:
        labels = _open_array(folder, meta, "labels", "l", (samples,))
        if labels.min() < -1 or (meta.label_names and labels.max() >= len(meta.label_names)):
            raise _damaged(folder, meta, "labels", "a label has no name")
    table = _open_samples(folder, meta) if "samples" in meta.files else pa.table({})
    names = {f: n for f, n in NameJournal(folder, _codes_key(meta.files)).current().items() if 0 <= f < features}
    return Features._opened(codes, labels, meta.label_names, table, names, meta.provenance)


def _damaged(folder: Path, meta: _Meta, name: str, what: str) -> InputError:
    return InputError(f"{folder / meta.files[name]['file']} is damaged: {what}")


def _open_array(folder: Path, meta: _Meta, name: str, kinds: str, shape: tuple[int, ...]) -> Array:
    path = folder / meta.files[name]["file"]
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header can make NumPy raise nearly anything
        raise _damaged(folder, meta, name, "it is not a plain NumPy array") from error
    if array.dtype.char not in kinds or array.shape != shape:
        raise _damaged(folder, meta, name, f"it holds {array.dtype} of shape {array.shape}, expected shape {shape}")
    return array.view(np.ndarray)


def _open_csr(folder: Path, meta: _Meta) -> Any:
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


def _open_samples(folder: Path, meta: _Meta) -> pa.Table:
    path = folder / meta.files["samples"]["file"]
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        table.validate(full=True)  # offsets that point outside would crash whoever reads them
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(folder, meta, "samples", "it is not an Arrow file") from error
    columns = {"id": pa.string(), "media": pa.large_binary(), "text": pa.large_string()}
    fits = all(columns.get(field.name) == field.type for field in table.schema)
    if not fits or table.num_rows != meta.shape[0] or len(set(table.column_names)) < table.num_columns:
        raise _damaged(folder, meta, "samples", f"it holds {table.num_rows} rows of {table.column_names}")
    return table
