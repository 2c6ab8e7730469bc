"""`open_texts`: recognises the kind of data, and reads its texts, labels, ids and partners."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.labels import UNLABELLED, is_labelled, label_numbers
from nonneg.messages import LEAVE_OUT, valid_text
from nonneg.modalities._source import Source
from nonneg.modalities._splits import SPLITS, choose_split, numbered_classes, require_train, row_ids, unique_ids
from nonneg.modalities.texts._rows import TextRows
from nonneg.modalities.texts.sources._bundled import intents
from nonneg.modalities.texts.sources._table import TEXT_COLUMNS, DatasetTable, FileTable, ListTable, Table
from nonneg.tables import split_name

_BUNDLED: dict[str, Callable[[], dict[str, Table]]] = {"intents": intents}
_SUFFIXES = (".txt", ".csv", ".jsonl", ".parquet")
_ACCEPTED = (
    "a .txt file with one text per line, a column of a .csv, .jsonl or .parquet file as file.csv:column, or a folder"
    " with such files named train and test as folder:column"
)
_SHOWN = 3  # broken texts in a message


@dataclass(frozen=True)
class Columns:
    """The columns beside the texts, "" for none.

    Attributes:
        labels: of labels.
        pairs: of partners, one per text.
        groups: of groups; texts of the same group are partners.
        ids: of ids.
        scores: of the similarity of a text and its partner, as people judged it.
    """

    labels: str = ""
    pairs: str = ""
    groups: str = ""
    ids: str = ""
    scores: str = ""


def open_texts(
    data: Any,
    split: str = "train",
    columns: Columns | None = None,
    *,
    skip_broken: bool = False,
    need_columns: bool = True,
    trained_on: str = "",
) -> Source:
    """Open texts of any supported kind.

    Args:
        data: `intents` (bundled); the path of a `.txt` file with one text per line; a column of a table as
            `file.csv:column` (.csv, .jsonl or .parquet); a folder with such files named train and test as
            `folder:column`; a list of texts, or a tuple of texts and labels; a dictionary of
            columns; a Hugging Face dataset, or several by split.
        split: `train`, `test` or the data's own name; data without splits is all `train`.
        columns: the columns beside the texts.
        skip_broken: leave out empty and blank texts and those with invalid characters, and list them in
            `Source.skipped`.
        need_columns: a missing column is an error; otherwise it is a note of the source.
        trained_on: the `TextRows.digest` of the training texts: where columns are not needed, those that are files
            belong to these texts and count as missing for others.

    Returns:
        A source whose samples are `TextRows`, without tokens.

    Example:
        >>> source = open_texts((["good", "bad", "fine"], ["+", "-", "+"]))
        >>> source.labels, source.label_names, source.samples.texts[1]
        (array([0, 1, 0]), ('+', '-'), 'bad')
    """
    title, tables, split = _tables(data, split)
    table, columns = tables[split], columns or Columns()
    texts = [_as_text(value) for value in table.texts()]
    if not texts:
        raise InputError(f"{table.where} holds no texts, expected at least one")
    notes: list[str] = []
    in_files = any(name and not table.has(name) for name in vars(columns).values())
    digest = _digest(texts) if in_files else ""
    take_files = need_columns or digest == trained_on
    named = {key: _present(table, key, name, need_columns, take_files, notes) for key, name in vars(columns).items()}
    read = {key: table.column(named[key], len(texts)) for key in ("pairs", "groups", "ids", "scores") if named[key]}
    pairs = [_as_text(value) for value in read["pairs"]] if "pairs" in read else None
    place = f"{table.where}, {named['groups']}"
    groups = _groups(read["groups"], place, need_columns, notes) if "groups" in read else None
    scores = _scores(read["scores"], f"{table.where}, {named['scores']}") if "scores" in read else None
    labels, label_names = _labels(tables, split, named["labels"], len(texts), need_columns)
    ids = unique_ids(map(str, read["ids"])) if "ids" in read else row_ids(split, len(texts))
    rows = TextRows(texts, pairs, groups, scores, tuple(notes), digest)
    source = Source(f"{title}/{split}", rows, ids, labels, label_names, notes=tuple(notes))
    return _without_broken(source, table.where, skip_broken)


def _tables(data: Any, split: str) -> tuple[str, dict[str, Table], str]:
    """Return the name of the data, its splits, and which of these is asked for."""
    if isinstance(data, ListTable):
        return data.where, {split: data}, split
    if isinstance(data, str) and data in _BUNDLED:
        tables = _BUNDLED[data]()
        return data, tables, choose_split(split, tables, data)
    if isinstance(data, str | os.PathLike):
        return _at_path(os.fspath(data), split)
    if isinstance(data, Mapping) and data and all(hasattr(part, "column_names") for part in data.values()):
        split = choose_split(split, map(str, data), "the dataset")
        return "dataset", {str(name): DatasetTable(part) for name, part in data.items()}, split
    if hasattr(data, "column_names"):
        own = str(getattr(data, "split", None) or "train")
        if split != "train" and own != split:
            raise InputError(f"the dataset is the split {own!r}, expected {split!r}; pass that split's dataset")
        return "dataset", {own: DatasetTable(data)}, own
    require_train(split, "a list")
    return "texts", {split: _in_memory(data)}, split


def _in_memory(data: Any) -> Table:
    if isinstance(data, Mapping):
        name = next((name for name in TEXT_COLUMNS if name in data), None)
        if name is None:
            found = ", ".join(map(str, data)) or "none"
            raise InputError(f"data has the columns {found}, expected texts in {' or '.join(TEXT_COLUMNS)}")
        return ListTable("data", {str(key): list(values) for key, values in data.items()}, name)
    if isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], str):
        return ListTable("data", {"text": list(data[0]), "labels": list(data[1])}, "text", labels="labels")
    if isinstance(data, np.ndarray | list | tuple):
        return ListTable("data", {"text": list(data)}, "text")
    raise InputError(
        f"data is a {type(data).__name__}, expected a list of texts, a tuple of texts and labels, a dictionary of"
        f" columns, a Hugging Face dataset, or the path of {_ACCEPTED}"
    )


def _at_path(given: str, split: str) -> tuple[str, dict[str, Table], str]:
    path, column = split_name(given)
    with read_errors_as_input_errors(path):
        if not given or not path.exists():
            raise InputError(f"data is {given!r}, which does not exist; expected {', '.join(_BUNDLED)}, {_ACCEPTED}")
        is_folder = path.is_dir()
        files = {file.stem: file for file in sorted(path.iterdir()) if _is_split(file)} if is_folder else {}
    name = valid_text(path.resolve().name if is_folder else path.stem)
    if is_folder:
        if not files:
            raise InputError(f"{path} holds no texts, expected {_ACCEPTED}")
        split = choose_split(split, files, str(path))
        return name, {each: FileTable(file, column) for each, file in files.items()}, split
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"{path} has the suffix {path.suffix!r}, expected {_ACCEPTED}")
    require_train(split, str(path))
    return name, {split: FileTable(path, column)}, split


def _is_split(file: Path) -> bool:
    return file.stem in SPLITS and file.suffix.lower() in _SUFFIXES and file.is_file()


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, np.str_) else value


def _digest(texts: Sequence[Any]) -> str:
    """Return a string that changes with the texts."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(f"{text}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _present(table: Table, key: str, named: str, is_needed: bool, take_files: bool, notes: list[str]) -> str:
    """Return the name of a column, or "" if it is missing and not needed."""
    if not named:
        return table.labels if key == "labels" else ""
    if is_needed or table.has(named, take_files):
        return named
    notes.append(f"{table.where} has no column {named!r}, so the texts have no {key}")
    return ""


def _labels(
    tables: Mapping[str, Table], split: str, named: str, rows: int, is_needed: bool
) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...]]:
    """Return labels and their names; a label has the same number in all splits."""
    if not named:
        return None, ()
    table = tables[split]
    own = table.column(named, rows)
    if names := table.class_names(named):
        numbers, known = numbered_classes([UNLABELLED if label is None else int(label) for label in own], names, named)
        return (None, ()) if numbers is None else (np.asarray(numbers, np.int64), known)
    others = [each.column(named, len(each.texts())) for key, each in tables.items() if key != split and each.has(named)]
    everywhere = [label for values in (own, *others) for label in values]
    found, known = label_numbers(everywhere, f"{table.where}, labels {named},", is_needed)
    return found[:rows] if known else None, known


def _groups(values: Sequence[Any], where: str, is_needed: bool, notes: list[str]) -> npt.NDArray[np.int64]:
    """Number the groups; texts without a group have -1. Groups that nothing can be learnt from are an error."""
    known = is_labelled(values)
    names = np.array([str(value) for value in values], object)  # NumPy's strings would all be as long as the longest
    _, numbers = np.unique(names, return_inverse=True)
    groups = np.where(known, numbers, UNLABELLED).astype(np.int64)
    sizes = np.bincount(groups[known], minlength=1)
    alone = len(groups) - int(sizes[sizes > 1].sum())
    if is_needed and alone == len(groups):
        raise InputError(f"{where}: no two texts have the same group, expected groups of two or more")
    if is_needed and sizes.max() == len(groups):
        raise InputError(f"{where}: all texts are in one group, which leaves no negatives; expected several groups")
    if alone and is_needed:
        notes.append(f"{alone:,} of {len(groups):,} texts are alone in their group and are their own partners")
    return groups


def _scores(values: Sequence[Any], where: str) -> npt.NDArray[np.float64]:
    try:
        scores = np.array([float(value) for value in values])
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: some scores are not numbers, expected a number in every row") from error
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise InputError(f"{where}: row {row} is {scores[row]}, expected a finite number in every row")
    return scores


class BrokenTextError(Exception):
    """Stands for a text that cannot be read; the message says what is wrong with it, as `fault_of` does."""


def fault_of(text: Any) -> str | None:
    """Return what is wrong with a text, such as `is empty`, or None.

    Example:
        >>> fault_of("words"), fault_of(" "), fault_of(3)
        (None, 'is blank', 'is of type int')
    """
    if text is None:
        return "is missing"
    if isinstance(text, BrokenTextError):
        return str(text)
    if not isinstance(text, str):
        return f"is of type {type(text).__name__}"
    if not text.strip():
        return "is empty" if not text else "is blank"
    if "\0" in text:
        return "has a NUL character"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "is not valid Unicode"
    return None


def _without_broken(source: Source, where: str, skip: bool) -> Source:
    rows: TextRows = source.samples
    broken: dict[int, str] = {}
    for row, text in enumerate(rows.texts):
        fault = fault_of(text)
        if fault is None and rows.pairs is not None and (partner := fault_of(rows.pairs[row])):
            fault = f"has a partner that {partner}"
        if fault:
            broken[row] = fault
    if not broken:
        return source
    shown = ", ".join(f"row {row} {fault}" for row, fault in list(broken.items())[:_SHOWN])
    shown += f" and {len(broken) - _SHOWN:,} more" if len(broken) > _SHOWN else ""
    if not skip:
        raise InputError(f"{where}: {shown}, expected text in every row; {LEAVE_OUT}")
    kept = np.array([row for row in range(len(rows)) if row not in broken], np.int64)
    if not len(kept):
        raise InputError(f"{where} holds no text that can be used: {shown}")
    notes = (*rows.notes, f"{len(broken):,} of {len(rows):,} texts are left out: {shown}")
    left, usable = source.take(kept), replace(rows.take(kept), notes=notes)
    skipped = tuple(f"{source.ids[row]} ({fault.removeprefix('is ')})" for row, fault in broken.items())
    return Source(left.name, usable, left.ids, left.labels, left.label_names, skipped=skipped, notes=notes)
