"""Tables with a column per side: which file holds them, and which columns."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import valid_text
from nonneg.modalities._splits import SPLITS, choose_split, require_train
from nonneg.modalities.texts.sources import column_called
from nonneg.tables import column_names, read_column

SUFFIXES = (".csv", ".jsonl", ".parquet")
ACCEPTED = (
    "a .csv, .jsonl or .parquet file with a path and a text per row beside the images, a folder that holds one, or"
    " tables named train and test; Parquet with encoded images; a tar with .jpg and .txt files of the same stem"
)
USUAL = {
    "images": ("image", "img", "picture", "photo", "path", "file", "filename", "file_name", "image_path", "filepath"),
    "texts": ("text", "caption", "title", "name", "description", "sentence", "productdisplayname"),
}


class NotPairsError(InputError):
    """Data in which no table, column or container of pairs is found; it may be samples of one side alone."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table of pairs, "" for those of the usual names, and for no labels and groups."""

    first: str = ""
    second: str = ""
    labels: str = ""
    groups: str = ""

    def among(self, names: Sequence[str], where: str, are_needed: bool) -> tuple["Columns", tuple[str, ...]]:
        """Return these columns with labels and groups by name, "" for missing ones, and a note about each of those.

        Where they are needed, a missing one is an error.
        """
        given = {key: name for key in ("labels", "groups") if (name := getattr(self, key))}
        found = {key: column_called(name, names) for key, name in given.items()}
        missing = {key: given[key] for key, name in found.items() if name is None}
        for key, name in missing.items() if are_needed else ():
            expected = f"one of {', '.join(names)}" if names else f"no {key}"
            raise InputError(f"{where} has no column {name!r}, expected {expected}")
        notes = tuple(f"{where} has no column {name!r}, so the pairs have no {key}" for key, name in missing.items())
        return replace(self, **{key: name or "" for key, name in found.items()}), notes


@dataclass(frozen=True)
class Table:
    """One split of a table of pairs.

    Attributes:
        path: the file.
        name: a short name of the data.
        split: the name of the split.
        others: the files of the other splits, for labels.
        is_divided: whether the data has splits.
    """

    path: Path
    name: str
    split: str
    others: tuple[Path, ...] = ()
    is_divided: bool = True

    def column(self, name: str, path: Path | None = None) -> Sequence[Any]:
        """Return the values of a column of this split, or of another one."""
        values: Sequence[Any] = read_column(f"{path or self.path}:{name}", as_text=True)
        return [None if value is None or value != value else value for value in values]  # NaN is a missing value

    def chosen(self, given: str, kind: str, taken: Sequence[str] = ()) -> str:
        """Return the name of a column: the given one, or the first of the usual names for this kind of samples."""
        names = column_names(self.path)
        return chosen_column(str(self.path), names, given, USUAL.get(kind, ()), kind, taken)

    def check_split(self) -> None:
        """Raise an error if another split than train is requested of data without splits."""
        if not self.is_divided:
            require_train(self.split, str(self.path))


def chosen_column(
    where: str, names: Sequence[str], given: str, usual: Sequence[str], kind: str, taken: Sequence[str] = ()
) -> str:
    """Return the given column by name, or the first of the usual names, in any case, that is there and not taken."""
    listed = ", ".join(names) or "none"
    if given:
        named = column_called(given, names)
        if named is None:
            raise NotPairsError(f"{where} has no column {given!r}, expected one of {listed}")
        return named
    lower = {name.lower(): name for name in reversed(names) if name not in taken}
    found = next((lower[name] for name in usual if name in lower), None)
    if found is None:
        expected = f"{kind} in one of {', '.join(usual) or 'none'}"
        raise NotPairsError(
            f"{where} has the columns {listed}, expected {expected}; or name them by --first-column and --second-column"
        )
    return found


def open_table(data: str | os.PathLike[str], split: str) -> Table:
    """Find the table of a split."""
    path = Path(data)
    with read_errors_as_input_errors(path):
        if not os.fspath(data) or not path.exists():
            raise NotPairsError(f"data is {os.fspath(data)!r}, which does not exist, expected emoji, or {ACCEPTED}")
        is_folder = path.is_dir()
        files = sorted(file for file in path.iterdir() if _is_table(file)) if is_folder else []
    if not is_folder:
        if path.suffix.lower() not in SUFFIXES:
            raise NotPairsError(f"{path} has the suffix {path.suffix!r}, expected {ACCEPTED}")
        return Table(path, valid_text(path.stem), split, is_divided=False)
    name = valid_text(path.resolve().name)
    splits: Mapping[str, Path] = {file.stem: file for file in files if file.stem in SPLITS}
    if splits:
        chosen = choose_split(split, splits, str(path))
        return Table(splits[chosen], name, chosen, tuple(file for key, file in splits.items() if key != chosen))
    if len(files) != 1:
        found = ", ".join(file.name for file in files[:5]) or "no table"
        raise NotPairsError(f"{path} holds {found}, expected {ACCEPTED}")
    return Table(files[0], name, split, is_divided=False)


def _is_table(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and file.is_file()
