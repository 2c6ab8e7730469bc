"""Splits, classes and ids of a data set, for any modality."""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from nonneg.errors import InputError
from nonneg.messages import valid_text

SPLITS = ("train", "test", "val", "validation")
_STANDS_FOR = {
    "test": ("test", "val", "validation"),
    "val": ("val", "validation"),
    "validation": ("validation", "val"),
}
_MOST_CLASSES = 1_000_000


def unique_ids(names: Iterable[str]) -> tuple[str, ...]:
    """Valid text, all different: where two names look the same, the second becomes `name#2`.

    Example:
        >>> unique_ids(["a.png", "a.png", "b.png"])
        ('a.png', 'a.png#2', 'b.png')
    """
    ids = [valid_text(name) for name in names]
    taken = set(ids)
    if len(taken) == len(ids):
        return tuple(ids)
    seen: set[str] = set()
    for row, name in enumerate(ids):
        number = 2
        while ids[row] in seen or (ids[row] != name and ids[row] in taken):
            ids[row] = f"{name}#{number}"
            number += 1
        seen.add(ids[row])
    return tuple(ids)


def row_ids(split: str, rows: int) -> tuple[str, ...]:
    """Ids for samples that have no name of their own: `train-000000`, `train-000001`, …"""
    return tuple(f"{split}-{row:06d}" for row in range(rows))


def has_splits(folders: Iterable[str]) -> bool:
    """Whether these sub-folders are splits (train and another, or nothing else) rather than classes."""
    names = set(folders)
    return ("train" in names and len(names & set(SPLITS)) > 1) or (bool(names) and names <= set(SPLITS))


def choose_split(asked: str, there: Iterable[str], where: str) -> str:
    """The split that is meant: `test` also finds `val` and `validation`."""
    there = sorted(there)
    for name in _STANDS_FOR.get(asked, (asked,)):
        if name in there:
            return name
    raise InputError(f"{where} has no split {asked!r}, expected one of {', '.join(there)}")


class UndividedError(InputError):
    """Another split than train was asked for of data that has none."""


def require_train(asked: str, where: str) -> None:
    """Data without splits is all one split, train."""
    if asked != "train":
        raise UndividedError(f"{where} is not divided into splits, so split is train (all of it), not {asked!r}")


def classes(
    paths: Sequence[PurePosixPath], elsewhere: Iterable[str], where: str
) -> tuple[list[int] | None, tuple[str, ...]]:
    """Labels and their names from paths below the split: the first folder is the class, no folder is no label.

    Args:
        paths: one a sample.
        elsewhere: classes of the other splits, so that a class has one number in all of them.
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
    """Labels that are numbers already, with their names where known; all -1 is no labels."""
    lowest, highest = min(labels), max(labels)
    most = len(names) if names else _MOST_CLASSES
    if lowest < -1 or highest >= most:
        raise InputError(
            f"{where} holds labels from {lowest} to {highest}, expected class numbers from 0 to {most - 1}, or -1 for "
            "none"
        )
    if highest == -1:
        return None, ()
    return labels, tuple(names) or tuple(str(label) for label in range(highest + 1))
