"""Pictures stored with their texts: Parquet with encoded images, WebDataset tars, Hugging Face datasets."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from nonneg.errors import InputError
from nonneg.modalities._splits import choose_split
from nonneg.modalities.images.sources import Listed, listed, tar_members
from nonneg.modalities.pairs.sources._table import USUAL, Columns, Table, chosen_column
from nonneg.tables import column_names


@dataclass(frozen=True)
class Contained:
    """The pictures of a split in order, and the other columns.

    Attributes:
        where: the data, for messages.
        name: for `Source.name`.
        ids: the id of each picture, including broken ones.
        texts: the text of each picture, None if there is none.
        labels: the label of each picture, if a column of them was named.
        labels_elsewhere: those of the other splits: a label has the same number in all of them.
        groups: the group of each picture, likewise.
        alone: the ids of pictures without a text, in a tar.
        notes: what is worth knowing about the data.
    """

    where: str
    name: str
    ids: Sequence[str]
    texts: Sequence[Any]
    labels: Sequence[Any] | None = None
    labels_elsewhere: Sequence[Any] = ()
    groups: Sequence[Any] | None = None
    alone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def open_contained(data: Any, split: str, columns: Columns) -> Contained | None:
    """Return the pictures that the data stores itself with their texts; None for data of another kind."""
    found = listed(data, split)
    if found is None:
        return None
    if found.tar is not None:
        return _in_tar(found, found.tar, columns)
    if found.files:
        return _in_parquet(found, columns)
    return _in_dataset(found, data, split, columns)


def _in_tar(found: Listed, tar: Path, columns: Columns) -> Contained:
    """Read the `.txt` file of the same stem as each picture, as WebDataset stores them."""
    if columns.labels or columns.groups:
        raise InputError(f"{tar} has no columns, expected neither labels nor groups")
    texts = {}
    for path, content in tar_members(tar):
        if path.suffix == ".txt":
            texts[path.with_suffix("")] = content().decode("utf-8", "replace").strip()
    if not texts:
        raise InputError(f"{tar} holds no .txt file, expected one beside each picture, of the same stem")
    stems = [PurePosixPath(id).with_suffix("") for id in found.ids]
    alone = tuple(id for id, stem in zip(found.ids, stems, strict=True) if stem not in texts)
    lonely = len(texts.keys() - set(stems))
    notes = (f"{lonely:,} of {len(texts):,} .txt files have no picture of the same stem",) if lonely else ()
    return Contained(str(tar), found.name, found.ids, [texts.get(stem) for stem in stems], alone=alone, notes=notes)


def _in_parquet(found: Listed, columns: Columns) -> Contained:
    tables = [Table(path, found.name, "train") for path in found.files]
    text = tables[0].chosen(columns.second, "texts")
    read = {name: [value for table in tables for value in table.column(name)] for name in _named(text, columns)}
    others = [Table(path, found.name, "train") for path in found.elsewhere if columns.labels in column_names(path)]
    elsewhere = [label for table in others for label in table.column(columns.labels)]
    return _contained(f"{found.files[0]}:{text}", found, text, columns, read, elsewhere)


def _in_dataset(found: Listed, data: Any, split: str, columns: Columns) -> Contained:
    chosen = choose_split(split, map(str, data), "the dataset") if isinstance(data, Mapping) else ""
    part = data[chosen] if chosen else data
    part = part.with_format(None) if hasattr(part, "with_format") else part
    text = chosen_column("the dataset", list(part.column_names), columns.second, USUAL["texts"], "texts")
    read = {name: list(part[name]) for name in _named(text, columns)}
    others = [data[name] for name in data if str(name) != chosen] if chosen else []
    elsewhere = [label for other in others if columns.labels in other.column_names for label in other[columns.labels]]
    return _contained(f"the dataset's column {text}", found, text, columns, read, elsewhere)


def _named(text: str, columns: Columns) -> list[str]:
    return [name for name in (text, columns.labels, columns.groups) if name]


def _contained(
    where: str,
    found: Listed,
    text: str,
    columns: Columns,
    read: Mapping[str, Sequence[Any]],
    labels_elsewhere: Sequence[Any],
) -> Contained:
    labels, groups = (read.get(name) if name else None for name in (columns.labels, columns.groups))
    return Contained(where, found.name, found.ids, read[text], labels, labels_elsewhere, groups)


def is_stored(data: Any) -> bool:
    """Whether the data may store pictures itself: a tar, Parquet, a folder or an object."""
    if not isinstance(data, str | os.PathLike):
        return True
    # Path.is_dir raises an error for a very long name.
    return os.path.isdir(data) or Path(data).suffix.lower() not in (".csv", ".jsonl")  # noqa: PTH112
