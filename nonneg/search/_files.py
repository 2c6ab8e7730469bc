"""Opening the files of an index's folder; the hashes of small ones are checked."""

from pathlib import Path

import pyarrow as pa

from nonneg import payload
from nonneg.payload import Array, Entry, checked_content, damaged

_SMALL = 2**23  # bytes of a file whose hash is checked whenever it is opened


def open_array(folder: Path, entry: Entry, kind: str, shape: tuple[int, ...]) -> Array:
    """Open a memory-mapped array of this type and shape."""
    _check_small(folder, entry)
    return payload.open_array(folder, entry, (kind,), shape)


def open_strings(folder: Path, entry: Entry, name: str, rows: int) -> pa.Array:
    """Open a memory-mapped column of strings."""
    _check_small(folder, entry)
    table = payload.open_table(folder, entry, {name: pa.string()}, rows)
    if not table.num_columns:
        raise damaged(folder / entry["file"], f"it has no column {name}")
    return table[name].combine_chunks()


def _check_small(folder: Path, entry: Entry) -> None:
    if entry["bytes"] <= _SMALL:
        checked_content(folder, entry)
