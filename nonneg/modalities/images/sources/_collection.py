"""What every collection of encoded images has in common: samples in a fixed order, splits, classes and ids."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from nonneg.errors import InputError
from nonneg.messages import valid_text
from nonneg.modalities._splits import SPLITS

_PHOTOGRAPHS = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".jp2", ".webp", ".avif"})
_SUFFIXES = _PHOTOGRAPHS | {".png", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"}


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
