"""The files of an index's folder: their names, and checks when they are opened."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from nonneg import payload
from nonneg.durable import TEMPORARY_PREFIX
from nonneg.errors import InputError
from nonneg.payload import Array, Entry

PAYLOAD = re.compile(r"(ids|labels|starts|places|values|scales|deleted|seismic)-[0-9a-f]{16}\.(npy|arrow|seismic)")
DATABASE = re.compile(r"milvus-[0-9a-f]{16}\.db")
_SMALL = 2**23  # bytes of a file whose hash is checked whenever it is opened
_ADVICE = "; build the index again"


def is_own(name: str) -> bool:
    """Whether a file of this name could be part of an index."""
    return bool(PAYLOAD.fullmatch(name) or DATABASE.fullmatch(name))


def open_array(folder: Path, entry: Entry, kind: str, shape: tuple[int, ...]) -> Array:
    """Open a memory-mapped array of this type and shape; the hash of a small one is checked."""
    _check_small(folder, entry)
    return payload.open_array(folder, entry, (kind,), shape, _ADVICE)


def open_strings(folder: Path, entry: Entry, name: str, rows: int) -> pa.Array:
    """Open a memory-mapped column of strings; the hash of a small one is checked."""
    _check_small(folder, entry)
    table = payload.open_table(folder, entry, {name: pa.string()}, rows, _ADVICE)
    if not table.num_columns:
        raise damaged(folder / entry["file"], f"it has no column {name}")
    return table[name].combine_chunks()


def _check_small(folder: Path, entry: Entry) -> None:
    if entry["bytes"] <= _SMALL:
        checked_content(folder, entry)


def checked_content(folder: Path, entry: Entry) -> Path:
    """Return the path of a file after checking its hash."""
    return payload.checked_content(folder, entry, _ADVICE)


def damaged(path: Path, what: str) -> InputError:
    """Return the error for a damaged file."""
    return payload.damaged(path, what, _ADVICE)


def sweep(folder: Path, named: set[str]) -> None:
    """Remove an index's files that `meta.json` does not name: leftovers of a crash or of an earlier index."""
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if path.name in named or not (is_own(path.name) or path.name.startswith(TEMPORARY_PREFIX)):
                continue
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
