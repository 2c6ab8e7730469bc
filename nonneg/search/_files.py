"""Files of an index's folder: which are its own, and what to do when one is damaged."""

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
_ADVICE = "; build the index again"


def is_own(name: str) -> bool:
    """Whether an index could have written a file of this name."""
    return bool(PAYLOAD.fullmatch(name) or DATABASE.fullmatch(name))


def open_array(folder: Path, entry: Entry, kind: str, shape: tuple[int, ...]) -> Array:
    """A memory-mapped array of this type and shape."""
    return payload.open_array(folder, entry, (kind,), shape, _ADVICE)


def open_strings(folder: Path, entry: Entry, name: str, rows: int) -> pa.Array:
    """A memory-mapped column of strings, none missing."""
    table = payload.open_table(folder, entry, {name: pa.string()}, rows, _ADVICE)
    if not table.num_columns or table[name].null_count:
        raise damaged(folder / entry["file"], "some strings are missing")
    return table[name].combine_chunks()


def checked_content(folder: Path, entry: Entry) -> Path:
    """The path of a file that is what was saved, byte by byte."""
    return payload.checked_content(folder, entry, _ADVICE)


def damaged(path: Path, what: str) -> InputError:
    """The sentence for a file that cannot be trusted."""
    return payload.damaged(path, what, _ADVICE)


def sweep(folder: Path, named: set[str]) -> None:
    """Remove what no `meta.json` names: leftovers of a crash, or of the index before."""
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if path.name in named or not (is_own(path.name) or path.name.startswith(TEMPORARY_PREFIX)):
                continue
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
