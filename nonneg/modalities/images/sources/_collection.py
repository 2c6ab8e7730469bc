"""What all collections of encoded images have in common: samples in a fixed order, splits, classes and ids."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from nonneg.errors import InputError
from nonneg.messages import valid_text
from nonneg.modalities._splits import SPLITS

_PHOTOGRAPHS = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".jp2", ".webp", ".avif"})
_SUFFIXES = _PHOTOGRAPHS | {".png", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"}

MOST_BYTES = 256 << 20  # of an encoded image
Pixels = npt.NDArray[np.uint8]


class BrokenImageError(Exception):
    """An image that cannot be decoded; the message is the reason."""


def too_long(length: int) -> BrokenImageError:
    """Return the error for files of more than `MOST_BYTES`, which are not read."""
    return BrokenImageError(f"{length:,} bytes long")


@dataclass(frozen=True)
class Listing:
    """The samples of a collection in order, including broken ones.

    Attributes:
        name: for `Source.name`.
        ids: one per sample, all different, valid UTF-8.
        labels: one per sample, -1 for unlabelled; or None.
        label_names: the names of labels 0, 1, ….
    """

    name: str
    ids: Sequence[str]
    labels: Sequence[int] | None
    label_names: tuple[str, ...]


class ListedFile(NamedTuple):
    """An image file as it was when it was listed, so that later changes are detected when it is read.

    Attributes:
        path: the path of the file.
        bytes: its size; -1 if it was not found.
        modified: its modification time in nanoseconds; -1 if it was not found.
        readable: whether this user may read it.
    """

    path: str
    bytes: int
    modified: int
    readable: bool


class MixedSizesError(InputError):
    """Images of different sizes were opened without a size to bring them to."""


class Collection(Protocol):
    """Encoded images that are decoded once, into the cache."""

    @property
    def title(self) -> str:
        """A short name for the progress bar and the cache's folder."""

    @property
    def place(self) -> str:
        """What was opened and where; does not change with the content."""

    def fingerprint(self) -> str:
        """Return a string that changes with the content, computed without reading the images.

        It is computed again after everything has been read. It need not cover files that are listed one by one:
        changes to those are detected when they are read.
        """

    def listing(self) -> Listing:
        """Return the samples in order; may read the whole collection once."""

    def read(self, start: int) -> Iterator[Any]:
        """Yield the input of `decode` for each sample from number `start` on. Call `listing` first."""


def looks_like_image(name: str) -> bool:
    """Whether a file name is that of an image; hidden files do not count."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in _SUFFIXES  # noqa: PTH122 (a million times)


def short_name(path: Path) -> str:
    """Return the file name without suffixes of archives: `cifar10-jpeg.tar.xz` becomes `cifar10-jpeg`."""
    name = valid_text(path.resolve().name)
    for suffix in (".gz", ".bz2", ".xz", ".zst", ".tar", ".tgz", ".tbz2", ".txz", ".parquet", ".npy", ".npz"):
        name = name.removesuffix(suffix)
    return name or "data"


def check_no_split_among_classes(folders: Iterable[str], with_classes: Iterable[str], where: str) -> None:
    """Raise an error if one of the class folders looks like a split with class folders in it.

    Args:
        folders: the folders that hold images.
        with_classes: those among them that hold their images in further folders.
        where: the data, for the message.
    """
    if divided := sorted(set(with_classes) & set(SPLITS)):
        other = min(set(folders) - set(SPLITS))
        raise InputError(
            f"{where} holds both {divided[0]}, which looks like a split with class folders, and {other}, which does "
            f"not, expected either class folders or splits ({', '.join(SPLITS)})"
        )
