"""`open_source`: recognises the kind of data and opens it."""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import one_sentence
from nonneg.modalities._source import Source
from nonneg.modalities._splits import existing, require_train
from nonneg.modalities.images.sources import _arrays
from nonneg.modalities.images.sources._bundled import digits, shapes
from nonneg.modalities.images.sources._cache import open_cached
from nonneg.modalities.images.sources._cifar import cifar
from nonneg.modalities.images.sources._collection import Collection, Pixels
from nonneg.modalities.images.sources._column import Column
from nonneg.modalities.images.sources._folder import Folder, holds_image
from nonneg.modalities.images.sources._huggingface import HuggingFace, is_dataset
from nonneg.modalities.images.sources._parquet import Parquet, holds_encoded_images, parquet_files
from nonneg.modalities.images.sources._tar import Tar, is_tar

_BUNDLED: dict[str, Callable[[str], Source]] = {"digits": digits, "shapes": shapes}
_FIRST = 100  # images that are looked at to learn their size
_ACCEPTED = (
    "a folder of images (in class folders or flat), a tar of one, Parquet files with an image column, "
    "a .npy or .npz of uint8 images, or CIFAR's binary version"
)


def open_source(
    data: str | Path | Any,
    split: str = "train",
    *,
    image_size: int = 0,
    skip_broken: bool = False,
    progress: bool = True,
    cache: Path | None = None,
) -> Source:
    """Open images of any supported kind; image files are decoded once and kept in a cache.

    Args:
        data: `digits` or `shapes` (bundled); the path of a folder of images, a tar, Parquet, NumPy files or
            CIFAR's binary version; an array of images `(n, h, w)` or `(n, h, w, c)` uint8, or a tuple of images
            and labels `(n,)`; a Hugging Face dataset, or several by split; a `Column` of a table.
        split: `train`, `test` or the data's own name. `test` also finds `val` and `validation`; data without splits
            is all `train`.
        image_size: scale the shorter side of image files to this length and cut out the centre; 0 keeps their size,
            which then must be the same for all. Arrays keep their size.
        skip_broken: leave out images that cannot be decoded and list them in `Source.skipped`.
        progress: show a progress bar when decoding takes long.
        cache: the folder for decoded images; by default `$NONNEG_CACHE`, else `nonneg` in the user's cache folder.

    Raises:
        InputError: names what was found and what was expected.

    Example:
        >>> open_source("digits", "test").samples.shape
        (397, 8, 8, 1)
        >>> open_source((np.zeros((5, 4, 4), np.uint8), [0, 1, 0, 1, 1])).labels
        array([0, 1, 0, 1, 1])
    """
    if not isinstance(image_size, int) or not 0 <= image_size <= 10_000:
        raise InputError(f"image_size is {image_size!r}, expected 0 (unchanged) or a number of pixels up to 10,000")
    with _printable_errors():
        found = _open(data, split)
        if isinstance(found, Source):
            return found
        return open_cached(found, image_size, skip_broken, progress, cache)


def typical_side(data: str | Path | Any) -> tuple[int, bool]:
    """Return the median length of the shorter side of the first images, and whether all of these have the same size.

    Nothing is decoded.

    Example:
        >>> typical_side("digits")
        (8, True)
    """
    with _printable_errors():
        found = _open(data, "train")
        if isinstance(found, Source):
            return int(min(found.samples.shape[1:3])), True
        if isinstance(found, Tar):  # it would be read from start to end to be listed
            first = found.first(_FIRST)
        else:
            found.listing()
            first = found.read(0)
        from nonneg.modalities.images.sources._decode import size_of  # needs Pillow

        sizes = [size for image in itertools.islice(first, _FIRST) if (size := size_of(image))]
    return int(np.median([min(size) for size in sizes])) if sizes else 0, len(set(sizes)) <= 1


def decode_image(content: bytes, image_size: int) -> Pixels:
    """Decode an image given by a person to `(height, width, 3)` uint8; a broken one is an `InputError`."""
    from nonneg.modalities.images.sources._decode import decode_given  # needs Pillow

    return decode_given(content, image_size)


class Listed(NamedTuple):
    """Encoded images that are stored with other values: in Parquet files, in a tar or in a dataset.

    Attributes:
        name: for `Source.name`.
        ids: the id of each image, including broken ones.
        files: the Parquet files of the split, in the order of their rows.
        tar: the tar.
        elsewhere: the Parquet files of the other splits.
    """

    name: str
    ids: Sequence[str]
    files: Sequence[Path] = ()
    tar: Path | None = None
    elsewhere: Sequence[Path] = ()


def listed(data: Any, split: str = "train") -> Listed | None:
    """Return the images of data that stores them with other values, without decoding them; None for other data."""
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        tables = parquet_files(path) if path.is_dir() else [path] if path.suffix.lower() == ".parquet" else []
        if not any(file.is_file() and holds_encoded_images(file) for file in tables) and not (
            path.is_file() and is_tar(path)
        ):
            return None
    elif not is_dataset(data):
        return None
    with _printable_errors():
        found = _open(data, split)
        if isinstance(found, Source):
            return None
        listing = found.listing()
    if isinstance(found, Parquet):
        return Listed(listing.name, listing.ids, found.files, elsewhere=found.elsewhere)
    return Listed(listing.name, listing.ids, tar=Path(data) if isinstance(found, Tar) else None)


@contextmanager
def _printable_errors() -> Iterator[None]:
    """Escape file names in errors, which may hold line breaks and invalid text."""
    try:
        yield
    except InputError as error:
        sentence = one_sentence(str(error))
        if sentence == str(error):
            raise
        raise InputError(sentence) from error


def _open(data: Any, split: str) -> Source | Collection:
    if isinstance(data, Column):
        return data
    if isinstance(data, str) and data in _BUNDLED:
        return _bundled(data, split)
    if isinstance(data, str | os.PathLike):
        return _at_path(data, split)
    return _object(data, split)


def _bundled(name: str, split: str) -> Source:
    if split not in ("train", "test"):
        raise InputError(f"split is {split!r}, expected train or test")
    return _BUNDLED[name](split)


def _object(data: Any, split: str) -> Source | Collection:
    if is_dataset(data):
        return HuggingFace(data, split)
    images, labels = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    if not isinstance(images, np.ndarray):
        raise InputError(
            f"data is a {type(images).__name__}, expected a name, a path, an array of images, a tuple of images and "
            "labels, or a Hugging Face dataset"
        )
    require_train(split, "an array")
    return _arrays.from_arrays(images, labels, "array", split)


def _at_path(data: str | os.PathLike[str], split: str) -> Source | Collection:
    path = existing(data, f"one of {', '.join(_BUNDLED)}, or the path of {_ACCEPTED}")
    return _in_folder(path, split) if path.is_dir() else _in_file(path, split)


def _in_folder(path: Path, split: str) -> Source | Collection:
    if source := cifar(path, split):
        return source
    arrays, tables = _arrays.array_files(path), parquet_files(path)
    # Published tables and arrays often come with a preview image, and folders of images with a table of labels.
    if any(map(_arrays.looks_like_images, arrays)):
        return _arrays.from_folder(path, split)
    if any(map(holds_encoded_images, tables)):
        return Parquet(path, tables, split)
    if holds_image(path):
        return Folder(path, split)
    # Nothing holds images: open the most likely candidate for its error message.
    if arrays:
        return _arrays.from_folder(path, split)
    if tables:
        return Parquet(path, tables, split)
    if files := [file for file in path.rglob("*.parquet") if not file.name.startswith(".") and file.is_file()]:
        return Parquet(path, files, split)
    raise InputError(f"{path} holds no image, expected {_ACCEPTED}")


def _in_file(path: Path, split: str) -> Source | Collection:
    with read_errors_as_input_errors(path), path.open("rb") as file:
        start = file.read(6)
    if start.startswith(b"PAR1"):
        return Parquet(path, [path], split)
    if start == b"\x93NUMPY" or (start.startswith(b"PK") and path.suffix == ".npz"):
        return _arrays.from_file(path, split)
    if is_tar(path):
        return cifar(path, split) or Tar(path, split)
    raise InputError(f"{path} is of an unknown kind, expected {_ACCEPTED}")
