"""Paths, splits, classes and ids of a data set of any modality."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import valid_text

SPLITS = ("train", "test", "val", "validation")
_SYNONYMS = {
    "test": ("test", "val", "validation"),
    "val": ("val", "validation"),
    "validation": ("validation", "val"),
}
_MOST_CLASSES = 1_000_000


def existing(data: str | os.PathLike[str], expected: str) -> Path:
    """Return the path of an existing folder or regular file; an error says what was expected."""
    path = Path(data)
    with read_errors_as_input_errors(path):
        if not os.fspath(data) or not path.exists():  # an empty path would be the current folder
            raise InputError(f"data is {os.fspath(data)!r}, expected {expected}")
        if not path.is_dir() and not path.is_file():  # opening a pipe would block
            raise InputError(f"{path} is neither a folder nor a regular file, expected {expected}")
    return path


def unique_ids(names: Iterable[str]) -> tuple[str, ...]:
    """Return valid and distinct text: of two equal names, the second becomes `name#2`.

    Example:
        >>> unique_ids(["a.png", "a.png", "b.png"])
        ('a.png', 'a.png#2', 'b.png')
    """
    ids = [valid_text(name) for name in names]
    taken = set(ids)
    if len(taken) == len(ids):
        return tuple(ids)
    seen: set[str] = set()
    last: dict[str, int] = {}  # the number that was tried last for a name: lower ones are taken
    for row, name in enumerate(ids):
        while ids[row] in seen or (ids[row] != name and ids[row] in taken):
            last[name] = last.get(name, 1) + 1
            ids[row] = f"{name}#{last[name]}"
        seen.add(ids[row])
    return tuple(ids)


def row_ids(split: str, rows: int) -> tuple[str, ...]:
    """Return ids for samples without names: `train-000000`, `train-000001`, …"""
    return tuple(f"{split}-{row:06d}" for row in range(rows))


def has_splits(folders: Iterable[str]) -> bool:
    """Whether these sub-folders are splits (train and another, or nothing else) rather than classes."""
    names = set(folders)
    return ("train" in names and len(names & set(SPLITS)) > 1) or (bool(names) and names <= set(SPLITS))


def choose_split(wanted: str, available: Iterable[str], where: str) -> str:
    """Return the name of the wanted split; `test` also finds `val` and `validation`."""
    available = sorted(available)
    for name in _SYNONYMS.get(wanted, (wanted,)):
        if name in available:
            return name
    raise InputError(f"{where} has no split {wanted!r}, expected one of {', '.join(available)}")


class UndividedError(InputError):
    """A split other than train was requested of data without splits."""


def require_train(wanted: str, where: str) -> None:
    """Raise an error unless the split is train, which is all of the data if it has no splits."""
    if wanted != "train":
        raise UndividedError(f"{where} has no split {wanted!r}: it is not divided, expected train (all of it)")


def classes(
    paths: Sequence[PurePosixPath], elsewhere: Iterable[str], where: str
) -> tuple[list[int] | None, tuple[str, ...]]:
    """Return labels and their names from paths below the split: the first folder of a path is the class.

    Args:
        paths: one per sample; without folders there are no labels.
        elsewhere: classes of the other splits, so that a class has the same number in all of them.
        where: the data, for the message.
    """
    folders = [path.parts[0] if len(path.parts) > 1 else None for path in paths]
    found = {folder for folder in folders if folder is not None}
    if not found:
        return None, ()
    if None in folders:
        loose, filed = (next(p for p in paths if (len(p.parts) > 1) is in_folder) for in_folder in (False, True))
        raise InputError(
            f"{where} holds images both directly ({valid_text(str(loose))}) and in folders ({valid_text(str(filed))}), "
            "expected all in class folders or none"
        )
    names = sorted(found | set(elsewhere))
    number = {name: label for label, name in enumerate(names)}
    return [number[folder] for folder in folders if folder is not None], unique_ids(names)


def numbered_classes(
    labels: Sequence[int], names: Sequence[str], where: str
) -> tuple[Sequence[int] | None, tuple[str, ...]]:
    """Return labels that are numbers already, with their names if known; if all are -1 there are no labels."""
    lowest, highest = min(labels), max(labels)
    most = len(names) if names else _MOST_CLASSES
    if lowest < -1 or highest >= most:
        raise InputError(
            f"{where} holds labels from {lowest} to {highest}, expected class numbers from 0 to {most - 1}, or -1 if "
            "unlabelled"
        )
    if highest == -1:
        return None, ()
    return labels, tuple(names) or tuple(str(label) for label in range(highest + 1))
