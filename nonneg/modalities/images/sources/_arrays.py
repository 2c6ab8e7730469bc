"""Images that are arrays, in memory or in NumPy's files; they are used unchanged, and `.npy` is memory-mapped."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import one_line
from nonneg.modalities._source import Source
from nonneg.modalities._splits import SPLITS, choose_split, numbered_classes, require_train, row_ids
from nonneg.modalities.images.sources._collection import short_name


def from_arrays(
    images: Any, labels: Any, name: str, split: str, where: str = "data", label_where: str = "labels"
) -> Source:
    """Return a source of images `(n, h, w)` or `(n, h, w, 1 or 3)` uint8, and integer labels `(n,)` or None."""
    images = np.asanyarray(images)
    if images.ndim == 3:
        images = images[..., None]
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape:
        raise InputError(
            f"{where} holds {images.dtype} of shape {images.shape}, expected uint8 images (n, height, width) or "
            "(n, height, width, 1 or 3 channels)"
        )
    numbers, names = _checked_labels(labels, len(images), label_where)
    return Source(f"{name}/{split}", images, row_ids(split, len(images)), numbers, names)


def from_file(path: Path, split: str) -> Source:
    """Open a `.npy` of images, or a `.npz` with images and possibly labels and splits."""
    found = _load(path)
    if isinstance(found, np.ndarray):
        require_train(split, str(path))
        return from_arrays(found, None, short_name(path), split, str(path))
    with found:
        return _named_arrays(path, found.files, lambda name: _member(path, found, name), ": {}", split)


def array_files(folder: Path) -> list[Path]:
    """Return the `.npy` files of a folder that have the usual names of image arrays."""
    files = [folder / f"{name}.npy" for split in ("", *SPLITS) for name in _image_names(split)]
    return [file for file in files if file.is_file()]


def looks_like_images(file: Path) -> bool:
    """Whether an array has as many dimensions as images; vectors may be called `x` as well."""
    return getattr(_load(file), "ndim", 0) in (3, 4)


def from_folder(folder: Path, split: str) -> Source:
    """Open `images.npy` or `train_images.npy`, …, with the labels beside it."""
    names = [path.stem for path in folder.glob("*.npy") if path.is_file()]
    return _named_arrays(folder, names, lambda name: _load(folder / f"{name}.npy"), "/{}.npy", split)


def _named_arrays(data: Path, names: Iterable[str], load: Callable[[str], Any], member: str, split: str) -> Source:
    names = set(names)
    splits = {part for part in SPLITS if names & set(_image_names(part))}
    if splits:
        part = choose_split(split, splits, str(data))
    elif names & set(_image_names("")):
        require_train(split, str(data))
        part = ""
    else:
        found = ", ".join(sorted(names)) or "nothing"
        raise InputError(f"{data} holds {found}, expected images (or x, x_train, train_images)")
    images = next(name for name in _image_names(part) if name in names)
    labels = next((name for name in _label_names(part) if name in names), None)
    return from_arrays(
        load(images),
        None if labels is None else load(labels),
        short_name(data),
        part or split,
        f"{data}{member.format(images)}",
        f"{data}{member.format(labels)}",
    )


def _image_names(split: str) -> tuple[str, ...]:
    return (f"{split}_images", f"x_{split}") if split else ("images", "x")


def _label_names(split: str) -> tuple[str, ...]:
    return (f"{split}_labels", f"y_{split}") if split else ("labels", "y")


def _checked_labels(labels: Any, rows: int, where: str) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...]]:
    if labels is None:
        return None, ()
    try:
        found = np.asarray(labels)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"{where} holds {one_line(error)}, expected integers of shape ({rows},)") from error
    flat = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if flat.dtype.kind not in "iub" or flat.shape != (rows,):
        raise InputError(f"{where} holds {found.dtype} of shape {found.shape}, expected integers of shape ({rows},)")
    numbers = flat.astype(np.int64)
    _, names = numbered_classes((int(numbers.min()), int(numbers.max())), (), where)
    return (numbers if names else None), names


def _load(path: Path) -> Any:
    try:
        with read_errors_as_input_errors(path):
            return np.load(path, mmap_mode="r", allow_pickle=False)
    except InputError:
        raise
    except Exception as error:  # damaged files make NumPy and zipfile raise nearly anything
        raise InputError(f"{path} is damaged or not a plain NumPy file: {one_line(error)}") from error


def _member(path: Path, archive: Any, name: str) -> Any:
    try:
        return archive[name]
    except Exception as error:
        raise InputError(f"{path}: {name} is damaged or not a plain array: {one_line(error)}") from error
