"""What every collection of encoded images has in common: samples in a fixed order, splits, classes and ids."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol

from nonneg.errors import InputError

SPLITS = ("train", "test", "val", "validation")
_STANDS_FOR = {
    "test": ("test", "val", "validation"),
    "val": ("val", "validation"),
    "validation": ("validation", "val"),
}
_PHOTOGRAPHS = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".jp2", ".webp", ".avif"})
_SUFFIXES = _PHOTOGRAPHS | {".png", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"}
_MOST_CLASSES = 1_000_000


@dataclass(frozen=True)
class Listing:
    """The samples of a collection in their order, broken ones included.

    Attributes:
        name: for `Source.name`.
        ids: one a sample, all different, valid UTF-8.
        labels: one a sample, -1 for none; or None.
        label_names: what label 0, 1, … is called.
    """

    name: str
    ids: Sequence[str]
    labels: Sequence[int] | None
    label_names: tuple[str, ...]


class ListedFile(NamedTuple):
    """An image file as it was when it was listed: what differs when it is read has changed since.

    Attributes:
        path: of the file.
        bytes: its length; -1 if it could not be found.
        modified: when, in nanoseconds; -1 if it could not be found.
        readable: whether this user might read it.
    """

    path: str
    bytes: int
    modified: int
    readable: bool


class Collection(Protocol):
    """Encoded images that are decoded once, into the cache."""

    @property
    def title(self) -> str:
        """A short name for people: the progress bar and the cache's folder."""

    @property
    def place(self) -> str:
        """What was opened, and where: stays the same when its content changes."""

    def fingerprint(self) -> str:
        """Changes when the content does; found without reading the images.

        It is asked again when everything has been read. Files that are listed one by one are not looked at again:
        reading each of them finds out whether it has changed.
        """

    def listing(self) -> Listing:
        """The samples in order. May read the whole collection once."""

    def read(self, start: int) -> Iterator[Any]:
        """What `decode` takes, one a sample, from sample number `start` on. Call `listing` first."""


def looks_like_image(name: str) -> bool:
    """Whether a file name says so; hidden files do not count."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in _SUFFIXES  # noqa: PTH122 (a million times)


def short_name(path: Path) -> str:
    """The name without what only says how it is packed: `cifar10-jpeg.tar.xz` is `cifar10-jpeg`."""
    name = valid_text(path.resolve().name)
    for suffix in (".gz", ".bz2", ".xz", ".zst", ".tar", ".tgz", ".tbz2", ".txz", ".parquet", ".npy", ".npz"):
        name = name.removesuffix(suffix)
    return name or "data"


def valid_text(name: str) -> str:
    """A file name as text that can be written anywhere: bytes that are not UTF-8 become `\\xff`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def one_line(error: Exception) -> str:
    """What another library says of a damaged file, fit to stand in a sentence."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def one_sentence(message: str) -> str:
    """A message fit to print, whatever the file names in it: control characters and line breaks become `\\n`.

    Example:
        >>> one_sentence("a\\nb.png holds no image")
        'a\\\\nb.png holds no image'
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in valid_text(message)
    )


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


def refuse_splits_among_classes(folders: Iterable[str], with_classes: Iterable[str], where: str) -> None:
    """Folders that are no splits (`has_splits`) are classes, unless one looks like a split all the same.

    Args:
        folders: those that hold images.
        with_classes: those among them that hold their images in further folders.
        where: the data, for the message.
    """
    if divided := sorted(set(with_classes) & set(SPLITS)):
        other = min(set(folders) - set(SPLITS))
        raise InputError(
            f"{where} holds both {divided[0]}, which looks like a split with class folders in it, and {other}, which "
            f"is none, expected either class folders or splits ({', '.join(SPLITS)})"
        )


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
