"""Images and collections of images for the tests."""

import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("cat", "dog", "owl")


def pixels(number: int, height: int = 6, width: int = 6) -> np.ndarray:
    """Return random pixels, different for each number."""
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)


def encoded(array: np.ndarray, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, kind, **options)
    return buffer.getvalue()


def write(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(array))


def class_folders(root: Path, splits=("train", "test"), each: int = 3) -> Path:
    """`<split>/<class>/<number>.png`; the number of an image is the seed of its pixels."""
    number = 0
    for split in splits:
        for name in CLASSES:
            for _ in range(each):
                write(root / split / name / f"{number:03d}.png", pixels(number))
                number += 1
    return root


def number_of(sample: str) -> int:
    return int(Path(sample).stem)


def pack(tar: Path, folder: Path, top: str = ".", mode: str = "w") -> Path:
    with tarfile.open(tar, mode) as file:
        file.add(folder, top, filter=lambda member: member)
    return tar


def assert_same(source, other) -> None:
    np.testing.assert_array_equal(source.samples, other.samples)
    np.testing.assert_array_equal(source.labels, other.labels)
    assert (source.ids, source.label_names, source.skipped) == (other.ids, other.label_names, other.skipped)
