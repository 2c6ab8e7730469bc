"""Pictures stored with their texts: Parquet with encoded images, WebDataset tars, Hugging Face datasets."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from nonneg.errors import InputError
from nonneg.messages import one_sentence
from nonneg.modalities._splits import choose_split
from nonneg.modalities.images.sources import Listed, listed, tar_members
from nonneg.modalities.pairs.sources._table import USUAL, Columns, NotPairsError, Table, chosen_column
from nonneg.modalities.texts.sources import BrokenTextError
from nonneg.tables import column_names

_LONGEST_TEXT = 1 << 20  # bytes


@dataclass(frozen=True)
class Contained:
    """The pictures of a split in order, and the other columns.

    Attributes:
        where: the data, for messages.
        name: for `Source.name`.
        ids: the id of each picture, including broken ones.
        texts: the text of each picture; None or a `BrokenTextError` if there is none that can be read.
        labels: the label of each picture, if a column of them was named.
        labels_elsewhere: those of the other splits: a label has the same number in all of them.
        groups: the group of each picture, likewise.
        notes: what is worth knowing about the data.
    """

    where: str
    name: str
    ids: Sequence[str]
    texts: Sequence[Any]
    labels: Sequence[Any] | None = None
    labels_elsewhere: Sequence[Any] = ()
    groups: Sequence[Any] | None = None
    notes: tuple[str, ...] = ()


def open_contained(data: Any, split: str, columns: Columns, need_columns: bool) -> Contained | None:
    """Return the pictures that the data stores itself with their texts; None for data of another kind."""
    try:
        found = listed(data, split)
    except InputError as error:
        if _may_hold_pictures(data):
            raise
        raise NotPairsError(str(error)) from error
    if found is None:
        return None
    if found.tar is not None:
        return _in_tar(found, found.tar, columns, need_columns)
    if found.files:
        return _in_parquet(found, columns, need_columns)
    return _in_dataset(found, data, split, columns, need_columns)


def _may_hold_pictures(data: Any) -> bool:
    """Whether this is a file or folder, or a dataset with a column of images, as far as its columns are known."""
    parts = data.values() if isinstance(data, Mapping) else [data]
    columns = [getattr(part, "column_names", None) for part in parts]
    return any(names is None or set(USUAL["images"]) & set(names) for names in columns)


def _in_tar(found: Listed, tar: Path, columns: Columns, need_columns: bool) -> Contained:
    """Read the `.txt` file of the same stem as each picture, as WebDataset stores them."""
    stems = [PurePosixPath(id).with_suffix("") for id in found.ids]
    wanted, lonely = set(stems), set()
    texts: dict[PurePosixPath, Any] = {}
    for path, content in tar_members(tar):
        if path.suffix == ".txt":
            stem = path.with_suffix("")
            if stem in wanted:
                texts[stem] = _text(path, content)
            else:
                lonely.add(stem)
    if not texts and not lonely:
        raise NotPairsError(f"{tar} holds no .txt file, expected one beside each picture, of the same stem")
    _, notes = columns.among((), str(tar), need_columns)
    missing = (BrokenTextError(f"is missing: {id} has no .txt file of the same stem") for id in found.ids)
    every = [texts.get(stem, none) for stem, none in zip(stems, missing, strict=True)]
    if lonely:
        of = len(lonely) + len(texts)
        notes = (*notes, f"{len(lonely):,} of {of:,} .txt files have no picture of the same stem")
    return Contained(str(tar), found.name, found.ids, every, notes=notes)


def _text(path: PurePosixPath, content: Any) -> str | BrokenTextError:
    """Read a member of a tar; a huge one, which may be a few bytes of the compressed tar, is not read."""
    if content.bytes > _LONGEST_TEXT:
        return BrokenTextError(f"is {content.bytes:,} bytes long in {one_sentence(str(path))}")
    try:
        return str(content().decode("utf-8-sig").strip())
    except UnicodeDecodeError:
        return BrokenTextError(f"is not UTF-8 in {one_sentence(str(path))}")


def _in_parquet(found: Listed, columns: Columns, need_columns: bool) -> Contained:
    tables = [Table(path, found.name, "train") for path in found.files]
    text = tables[0].chosen(columns.second, "texts")
    columns, notes = columns.among(column_names(found.files[0]), str(found.files[0]), need_columns)
    read = {name: [value for table in tables for value in table.column(name)] for name in _named(text, columns)}
    others = [Table(path, found.name, "train") for path in found.elsewhere if columns.labels in column_names(path)]
    elsewhere = [label for table in others for label in table.column(columns.labels)]
    return _contained(f"{found.files[0]}:{text}", found, text, columns, read, elsewhere, notes)


def _in_dataset(found: Listed, data: Any, split: str, columns: Columns, need_columns: bool) -> Contained:
    chosen = choose_split(split, map(str, data), "the dataset") if isinstance(data, Mapping) else ""
    part = data[chosen] if chosen else data
    part = part.with_format(None) if hasattr(part, "with_format") else part
    names = list(part.column_names)
    text = chosen_column("the dataset", names, columns.second, USUAL["texts"], "texts")
    columns, notes = columns.among(names, "the dataset", need_columns)
    read = {name: list(part[name]) for name in _named(text, columns)}
    others = [data[name] for name in data if str(name) != chosen] if chosen else []
    elsewhere = [label for other in others if columns.labels in other.column_names for label in other[columns.labels]]
    return _contained(f"the dataset's column {text}", found, text, columns, read, elsewhere, notes)


def _named(text: str, columns: Columns) -> list[str]:
    return [name for name in (text, columns.labels, columns.groups) if name]


def _contained(
    where: str,
    found: Listed,
    text: str,
    columns: Columns,
    read: Mapping[str, Sequence[Any]],
    labels_elsewhere: Sequence[Any],
    notes: tuple[str, ...],
) -> Contained:
    labels, groups = (read[name] if name else None for name in (columns.labels, columns.groups))
    return Contained(where, found.name, found.ids, read[text], labels, labels_elsewhere, groups, notes)


def is_stored(data: Any) -> bool:
    """Whether the data may store pictures itself: a tar, Parquet, a folder or an object."""
    if not isinstance(data, str | os.PathLike):
        return True
    # Path.is_dir raises an error for a very long name.
    return os.path.isdir(data) or Path(data).suffix.lower() not in (".csv", ".jsonl")  # noqa: PTH112
