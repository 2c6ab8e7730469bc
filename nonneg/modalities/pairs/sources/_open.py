"""`open_pairs`: recognises the kind of data and opens both sides of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nonneg.errors import InputError
from nonneg.labels import label_numbers
from nonneg.modalities._source import Source
from nonneg.modalities.images.sources import Column
from nonneg.modalities.pairs._rows import pair_source
from nonneg.modalities.pairs.sources._bundled import emoji
from nonneg.modalities.pairs.sources._table import Columns, Table, open_table

if TYPE_CHECKING:
    from nonneg.modalities.pairs._modality import Pairs

_EMOJI = "emoji"


def open_pairs(
    data: Any,
    split: str,
    pairs: "Pairs",
    columns: Columns,
    *,
    skip_broken: bool = False,
    progress: bool = True,
) -> Source:
    """Open pairs of any supported kind.

    Args:
        data: `emoji` (bundled); the path of a .csv, .jsonl or .parquet file with a column per side; or of a folder
            that holds such a file, or files of the names train and test.
        split: `train`, `test` or the data's own name; data without splits is all `train`.
        pairs: the modality of both sides.
        columns: the names of the columns.
        skip_broken: leave out pairs of which a side cannot be read, and list them in `Source.skipped`.
        progress: show a progress bar if reading takes long.
    """
    if isinstance(data, str) and data == _EMOJI:
        return emoji(split, pairs)
    if not isinstance(data, str | Path):
        raise InputError(f"data is a {type(data).__name__}, expected a path, or a Source that pair_source makes")
    table = open_table(data, split)
    first = table.chosen(columns.first, pairs.first.name)
    second = table.chosen(columns.second, pairs.second.name, (first,))
    sides, rows = [], []
    for modality, name in ((pairs.first, first), (pairs.second, second)):
        where = f"{table.path}:{name}"
        values = table.column(name)
        source, own = modality.open_column(values, where, table.path.parent, skip_broken=skip_broken, progress=progress)
        sides.append(source)
        rows.append(own)
    labels, label_names = _labels(table, columns.labels, len(rows[0]))
    groups = _groups(table.column(columns.groups)) if columns.groups else None
    return _paired(table, sides, np.stack(rows, axis=1), pairs.sides, labels, label_names, groups)


def picture_files(data: Any, columns: Columns) -> Column | None:
    """Return the image files that a table names in its first column; None for data that is no table."""
    if not isinstance(data, str | Path) or data == _EMOJI:
        return None
    table = open_table(data, "train")
    name = table.chosen(columns.first, "images")
    paths = list(dict.fromkeys(str(value) for value in table.column(name)))
    return Column(paths, table.path.parent, f"{table.path}:{name}")


def _paired(
    table: Table,
    sides: Sequence[Source],
    links: npt.NDArray[np.int64],
    names: tuple[str, str],
    labels: npt.NDArray[np.int64] | None,
    label_names: tuple[str, ...],
    groups: npt.NDArray[np.int64] | None,
) -> Source:
    """Join the sides; rows of which a side was skipped are left out, and so are repeated rows."""
    whole = np.flatnonzero((links >= 0).all(axis=1))
    if not len(whole):
        raise InputError(f"{table.path} holds no pair of which both sides can be read, expected at least one")
    _, first = np.unique(links[whole], axis=0, return_index=True)
    kept = whole[np.sort(first)]
    notes = []
    if left_out := len(links) - len(whole):
        notes.append(f"{left_out:,} of {len(links):,} rows are left out because a side of them cannot be read")
    if repeated := len(whole) - len(kept):
        notes.append(f"{repeated:,} of {len(links):,} rows are repeated and count once")
    return pair_source(
        sides[0],
        sides[1],
        links[kept],
        None if groups is None else groups[kept],
        sides=names,
        name=f"{table.name}/{table.split}",
        labels=None if labels is None else labels[kept],
        label_names=label_names,
        skipped=tuple(name for side in sides for name in side.skipped),
        notes=tuple(notes),
    )


def _labels(table: Table, name: str, rows: int) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...]]:
    """Return labels and their names; a label has the same number in all splits."""
    if not name:
        return None, ()
    values = [value for path in (table.path, *table.others) for value in table.column(name, path)]
    found, names = label_numbers(values, f"{table.path}:{name}")
    return found[:rows], names


def _groups(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Number the groups; a row without one is a group of its own."""
    keys = [f"row {row}" if value is None or value == "" else f"group {value}" for row, value in enumerate(values)]
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)
