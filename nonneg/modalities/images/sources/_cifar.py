"""CIFAR-10 and CIFAR-100 in their own binary format, as a folder or as the original archive."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.modalities._source import Source
from nonneg.modalities.images.sources._collection import MOST_BYTES
from nonneg.modalities.images.sources._tar import members

_SIDE = 32


@dataclass(frozen=True)
class _Version:
    name: str
    folder: str
    pickled_folder: str
    splits: Mapping[str, tuple[str, ...]]
    names_file: str
    classes: int
    label_bytes: int  # per record; the last one is the label, and CIFAR-100 has the coarse label before it


_VERSIONS = (
    _Version(
        "cifar-10",
        "cifar-10-batches-bin",
        "cifar-10-batches-py",
        {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)},
        "batches.meta.txt",
        10,
        1,
    ),
    _Version(
        "cifar-100",
        "cifar-100-binary",
        "cifar-100-python",
        {"train": ("train.bin",), "test": ("test.bin",)},
        "fine_label_names.txt",
        100,
        2,
    ),
)


def cifar(data: Path, split: str) -> Source | None:
    """Return CIFAR's 32x32 images with their labels if `data` is its folder, the parent or the archive, else None.

    Raises:
        InputError: a file is missing or damaged, or it is the pickled version.
    """
    found = _in_folder(data) if data.is_dir() else _in_archive(data)
    if found is None:
        return None
    version, place = found
    if split not in version.splits:
        raise InputError(f"{data} has no split {split!r}, expected one of {', '.join(version.splits)}")
    wanted = version.splits[split]
    files = _read(place, {*wanted, version.names_file})
    missing = [name for name in wanted if name not in files]
    if missing:
        raise InputError(f"{place} has no {missing[0]}, expected {', '.join(wanted)}")
    names = files.get(version.names_file, b"").decode("utf-8", "replace").split()
    labels, images, ids = [], [], []
    for name in wanted:
        records = _records(files.pop(name), version, f"{place}: {name}")
        labels.append(records[:, version.label_bytes - 1].astype(np.int64))
        planes = records[:, version.label_bytes :].reshape(-1, 3, _SIDE, _SIDE)
        images.append(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)))
        ids += [f"{name.removesuffix('.bin')}-{row:05d}" for row in range(len(records))]
    return Source(
        f"{version.name}/{split}",
        np.concatenate(images),
        tuple(ids),
        np.concatenate(labels),
        tuple(names) if len(names) == version.classes else tuple(str(label) for label in range(version.classes)),
    )


def _in_folder(data: Path) -> tuple[_Version, Path] | None:
    for version in _VERSIONS:
        names = [name for split in version.splits.values() for name in split]
        for place in (data, data / version.folder):
            there = sum((place / name).is_file() for name in names)
            # Two of its files are enough, whatever the folder is called; missing files are reported later.
            if there > 1 or (there and place.name == version.folder):
                return version, place
        for place in (data, data / version.pickled_folder):
            pickled = all((place / name.removesuffix(".bin")).is_file() for (name, *_) in version.splits.values())
            if place.name == version.pickled_folder and pickled:
                raise _pickled_error(place, version)
    return None


def _in_archive(data: Path) -> tuple[_Version, Path] | None:
    # The first files suffice; reading more would decompress all of a large archive of other data.
    for path, _ in islice(members(data), 3):
        for version in _VERSIONS:
            if version.folder in path.parts:
                return version, data
            if version.pickled_folder in path.parts:
                raise _pickled_error(data, version)
    return None


def _pickled_error(place: Path, version: _Version) -> InputError:
    return InputError(
        f"{place} is the Python version of {version.name}, a pickle that can run any code when opened; "
        f"expected the binary version (the folder {version.folder})"
    )


def _read(place: Path, names: set[str]) -> dict[str, bytes]:
    if place.is_dir():
        files = {}
        for name in names:
            if (place / name).is_file():
                with read_errors_as_input_errors(place / name):
                    files[name] = (place / name).read_bytes()
        return files
    files = {}
    for path, content in members(place):
        if path.name in names:
            if content.bytes > MOST_BYTES:
                raise InputError(
                    f"{place}: {path.name} is damaged: it has {content.bytes:,} bytes, expected {MOST_BYTES:,} at most"
                )
            files[path.name] = content()
    return files


def _records(content: bytes, version: _Version, where: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    length = version.label_bytes + 3 * _SIDE * _SIDE
    if not content or len(content) % length:
        raise InputError(f"{where} is damaged: it has {len(content):,} bytes, expected a multiple of {length:,}")
    records = np.frombuffer(content, np.uint8).reshape(-1, length)
    highest = records[:, version.label_bytes - 1].max()
    if highest >= version.classes:
        raise InputError(f"{where} is damaged: it holds the label {highest}, expected 0 to {version.classes - 1}")
    return records
