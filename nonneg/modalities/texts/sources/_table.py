"""Tables with a column of texts: files, Hugging Face datasets and Python lists, behind one interface."""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from nonneg.errors import InputError
from nonneg.tables import column_names, read_column, split_name

TEXT_COLUMNS = ("text", "sentence")  # the usual names of a dataset's column of texts


def column_called(wanted: str, names: Sequence[str]) -> str | None:
    """Return the column of this name, or of this position, from 0, as `read_column` finds it; None if there is none."""
    positions = {str(position): name or str(position) for position, name in enumerate(names)}
    return wanted if wanted in names else positions.get(wanted)


class Table(Protocol):
    """One split of the data.

    Attributes:
        where: what messages call it.
        labels: the column of labels if the caller names none; "" for none.
    """

    where: str
    labels: str

    def texts(self) -> Sequence[Any]:
        """Return the texts."""

    def has(self, column: str, or_file: bool = False) -> bool:
        """Whether there is such a column, or, if files count as well, a file of that name."""

    def column(self, column: str, rows: int) -> Sequence[Any]:
        """Return another column, which must have so many rows; an error names it if there is none."""

    def class_names(self, column: str) -> Sequence[str]:
        """Return the names of labels that are numbers, if the data knows them."""


class FileTable:
    """A file: `lines.txt`, or `table.csv:column` (.csv, .jsonl or .parquet)."""

    labels = ""

    def __init__(self, path: Path, column: str | None) -> None:
        self.path = path
        self.where = str(path) if column is None else f"{path}:{column}"

    def texts(self) -> Sequence[Any]:
        values: Sequence[Any] = read_column(self.where, as_text=True)
        return values

    def has(self, column: str, or_file: bool = False) -> bool:
        return column_called(column, self._names) is not None or (or_file and self._is_file(column))

    def column(self, column: str, rows: int) -> Sequence[Any]:
        """Return a column of the same file, or of another one: `labels.txt`, `table.csv:column`."""
        is_file = not self.has(column) and self._is_file(column)
        if not is_file and not self._names:
            raise InputError(f"{self.path} has no columns, expected a file instead of the column {column!r}")
        place = column if is_file else f"{self.path}:{column}"
        values: Sequence[Any] = read_column(place, rows, self.where, as_text=True)
        return values

    def class_names(self, column: str) -> Sequence[str]:
        return ()

    @cached_property
    def _names(self) -> list[str]:
        return column_names(self.path)

    def _is_file(self, column: str) -> bool:
        return os.path.isfile(split_name(column)[0])  # noqa: PTH113 (Path's method raises for a long name)


class ListTable:
    """Columns in memory: name to values, all of the same length."""

    def __init__(self, where: str, columns: Mapping[str, Sequence[Any]], text: str, labels: str = "") -> None:
        self.where, self.labels, self._columns, self._text = where, labels, columns, text
        rows = len(columns[text])
        for name, values in columns.items():
            if len(values) != rows:
                raise InputError(f"{name} has {len(values)} rows, expected {rows}, as in {text}")

    def texts(self) -> Sequence[Any]:
        return self._columns[self._text]

    def has(self, column: str, or_file: bool = False) -> bool:
        return column in self._columns

    def column(self, column: str, rows: int) -> Sequence[Any]:
        if column not in self._columns:
            found = ", ".join(map(str, self._columns))
            raise InputError(f"{self.where} has no column {column!r}, expected one of {found}")
        return self._columns[column]

    def class_names(self, column: str) -> Sequence[str]:
        return ()


class DatasetTable:
    """A `datasets.Dataset` that the caller has opened; that library is not imported here."""

    labels = ""

    def __init__(self, dataset: Any) -> None:
        if not hasattr(dataset, "__len__"):  # first: a streaming one may not know its columns
            kind = type(dataset).__name__
            raise InputError(f"data is a {kind}, expected a dataset with a length (not a streaming one)")
        names = list(dataset.column_names)
        name = next((name for name in TEXT_COLUMNS if name in names), names[0] if len(names) == 1 else None)
        if name is None:
            found = ", ".join(names)
            raise InputError(f"the dataset has the columns {found}, expected texts in {' or '.join(TEXT_COLUMNS)}")
        self.where, self._text = "the dataset", name
        self._data = dataset.with_format(None) if hasattr(dataset, "with_format") else dataset

    def texts(self) -> Sequence[Any]:
        return list(self._data[self._text])

    def has(self, column: str, or_file: bool = False) -> bool:
        return column in self._data.column_names

    def column(self, column: str, rows: int) -> Sequence[Any]:
        if not self.has(column):
            found = ", ".join(self._data.column_names)
            raise InputError(f"the dataset has no column {column!r}, expected one of {found}")
        return list(self._data[column])

    def class_names(self, column: str) -> Sequence[str]:
        features = getattr(self._data, "features", None) or {}
        return list(getattr(features.get(column), "names", None) or ())
