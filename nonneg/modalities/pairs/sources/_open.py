"""`open_pairs`: recognises the kind of data and opens both sides of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nonneg.errors import InputError
from nonneg.labels import is_labelled, label_numbers
from nonneg.modalities._source import Source
from nonneg.modalities.images import Images
from nonneg.modalities.images.sources import Column, MixedSizesError, listed
from nonneg.modalities.pairs._rows import pair_source
from nonneg.modalities.pairs.sources._bundled import emoji
from nonneg.modalities.pairs.sources._containers import Contained, is_stored, open_contained
from nonneg.modalities.pairs.sources._table import Columns, NotPairsError, open_table
from nonneg.tables import column_names

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
    need_columns: bool = True,
) -> Source:
    """Open pairs of any supported kind.

    Args:
        data: `emoji` (bundled); the path of a .csv, .jsonl or .parquet file with a column per side, or of a folder
            that holds such a file, or files of the names train and test; Parquet with encoded images and texts; a tar
            with .jpg and .txt files of the same stem; a Hugging Face dataset with images and texts.
        split: `train`, `test` or the data's own name; data without splits is all `train`.
        pairs: the modality of both sides.
        columns: the names of the columns.
        skip_broken: leave out pairs of which a side cannot be read, and list them in `Source.skipped`.
        progress: show a progress bar if reading takes long.
        need_columns: missing labels and groups are an error; otherwise they are a note of the source.

    Raises:
        NotPairsError: no table, column or container of pairs is found.
        InputError: there are pairs, and something is wrong with them.
    """
    if isinstance(data, str) and data == _EMOJI:
        return emoji(split, pairs)
    is_container = isinstance(pairs.first, Images) and is_stored(data)
    contained = open_contained(data, split, columns, need_columns) if is_container else None
    if contained is not None:
        return _from_container(data, split, pairs, contained, skip_broken, progress, need_columns)
    if not isinstance(data, str | Path):
        expected = "a path, a Hugging Face dataset with images, or a Source that pair_source makes"
        raise NotPairsError(f"data is a {type(data).__name__}, expected {expected}")
    table = open_table(data, split)
    first = table.chosen(columns.first, pairs.first.name)
    second = table.chosen(columns.second, pairs.second.name, (first,))
    table.check_split()
    columns, notes = columns.among(column_names(table.path), str(table.path), need_columns)
    opened = []
    for place, modality, name in (("first", pairs.first, first), ("second", pairs.second, second)):
        with _option_of(place):
            where, folder = f"{table.path}:{name}", table.path.parent
            column = table.column(name)
            opened.append(modality.open_column(column, where, folder, skip_broken=skip_broken, progress=progress))
    others = [path for path in table.others if columns.labels in column_names(path)]
    every = [table.column(columns.labels, path) for path in (table.path, *others)] if columns.labels else []
    labels = _labels(every, f"{table.path}:{columns.labels}", need_columns)
    groups = table.column(columns.groups) if columns.groups else None
    return _paired(str(table.path), f"{table.name}/{table.split}", pairs, opened, labels, groups, notes)


@contextmanager
def _option_of(place: str) -> Iterator[None]:
    """Name the option of this side where an error recommends one."""
    try:
        yield
    except MixedSizesError as error:
        raise InputError(str(error).replace("--image-size", f"--{place}.image-size")) from error


def _from_container(
    data: Any,
    split: str,
    pairs: "Pairs",
    contained: Contained,
    skip_broken: bool,
    progress: bool,
    need_columns: bool,
) -> Source:
    """Open pictures that the data stores itself, with their texts."""
    texts = pairs.second.open_column(
        contained.texts, contained.where, Path(), skip_broken=skip_broken, progress=progress
    )
    with _option_of("first"):
        images = pairs.first.open(data, split, skip_broken=skip_broken, progress=progress)
    row = {id: number for number, id in enumerate(images.ids)}
    rows = np.array([row.get(id, -1) for id in contained.ids])
    splits = [] if contained.labels is None else [contained.labels, contained.labels_elsewhere]
    labels = _labels(splits, contained.where, need_columns)
    if not pairs.labels and images.labels is not None:
        labels = np.where(rows < 0, -1, images.labels[rows]), images.label_names
    return _paired(
        contained.where, contained.name, pairs, [(images, rows), texts], labels, contained.groups, contained.notes
    )


def picture_files(data: Any, columns: Columns) -> Column | None:
    """Return the image files that a table names in its first column; None for data that stores pictures itself."""
    if not isinstance(data, str | Path) or data == _EMOJI:
        return None
    if is_stored(data) and listed(data, "train") is not None:
        return None
    table = open_table(data, "train")
    name = table.chosen(columns.first, "images")
    paths = list(dict.fromkeys(str(value) for value in table.column(name)))
    return Column(paths, table.path.parent, f"{table.path}:{name}")


def _paired(
    where: str,
    name: str,
    pairs: "Pairs",
    opened: Sequence[tuple[Source, npt.NDArray[np.int64]]],
    labels: tuple[npt.NDArray[np.int64] | None, tuple[str, ...]],
    groups: Sequence[Any] | None,
    notes: Sequence[str] = (),
) -> Source:
    """Join the sides; rows of which a side was skipped are left out, and so are repeated rows."""
    (first, first_rows), (second, second_rows) = opened
    links = np.stack((first_rows, second_rows), axis=1)
    whole = np.flatnonzero((links >= 0).all(axis=1))
    if not len(whole):
        raise InputError(f"{where} holds no pair of which both sides can be read, expected at least one")
    kept = whole[np.sort(np.unique(links[whole], axis=0, return_index=True)[1])]
    notes = list(notes)
    if left_out := len(links) - len(whole):
        notes.append(f"{left_out:,} of {len(links):,} rows are left out because a side of them cannot be read")
    if repeated := len(whole) - len(kept):
        notes.append(f"{repeated:,} of {len(links):,} rows are repeated and count once")
    numbers, label_names = labels
    return pair_source(
        first,
        second,
        links[kept],
        None if groups is None else _groups(groups)[kept],
        sides=pairs.sides,
        name=name,
        labels=None if numbers is None else numbers[kept],
        label_names=label_names,
        skipped=(*first.skipped, *second.skipped),
        notes=tuple(notes),
    )


def _labels(
    splits: Sequence[Sequence[Any]], where: str, are_needed: bool
) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...]]:
    """Return the labels of the first split and their names; a label has the same number in all splits."""
    if not splits:
        return None, ()
    found, names = label_numbers([value for values in splits for value in values], where, are_needed)
    return found[: len(splits[0])] if names else None, names


def _groups(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Number the groups; a row without one gets -1."""
    known = is_labelled(values)
    groups = np.full(len(known), -1)
    # Objects: NumPy's strings would all be as long as the longest.
    keys = np.array([str(value) for value, has_one in zip(values, known, strict=True) if has_one], object)
    groups[known] = np.unique(keys, return_inverse=True)[1]
    return groups
