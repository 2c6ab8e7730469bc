"""Bundled images that need no file: handwritten digits, and drawn shapes with known factors."""

import itertools

import numpy as np
import numpy.typing as npt

from nonneg.modalities._source import Source

SIZE = 24
SHAPES = ("disc", "ring", "triangle", "cross")
COLOURS = {
    "red": (220, 60, 50),
    "green": (70, 170, 80),
    "blue": (60, 110, 220),
    "yellow": (230, 200, 60),
}
SIZES = {"small": 3.5, "large": 5.6}
POSITIONS = {"left": (12, 6.5), "right": (12, 17.5)}
FACTORS = {"shape": SHAPES, "colour": tuple(COLOURS), "size": tuple(SIZES), "position": tuple(POSITIONS)}
_COPIES = {"train": 24, "test": 8}
_GRID = 4  # sub-pixels per pixel side, for smooth edges


def digits(split: str) -> Source:
    """Return scikit-learn's handwritten digits, grey images of 8x8: 1,400 for training or 397 for testing.

    The split is fixed and stratified by digit.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bundle = load_digits()
    images = np.round(bundle.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = bundle.target.astype(np.int64)
    rows = np.arange(len(labels))
    train, test = train_test_split(rows, test_size=397, stratify=labels, random_state=0)
    whole = Source(f"digits/{split}", images, tuple(f"digit-{row:04d}" for row in rows), labels, tuple("0123456789"))
    return whole.take(np.sort(train if split == "train" else test))


def shapes(split: str) -> Source:
    """Draw every combination of shape, colour, size and position several times, with small random variations.

    The label is the colour; all four factors are in `factors`. Train and test differ in the variations.
    """
    combinations = list(itertools.product(*(range(len(values)) for values in FACTORS.values())))
    copies = _COPIES[split]
    values = np.repeat(np.array(combinations, dtype=np.int64), copies, axis=0)
    rng = np.random.default_rng(0 if split == "train" else 1)
    images = np.stack([_draw(row, rng) for row in values])
    factors = {name: values[:, i] for i, name in enumerate(FACTORS)}
    ids = tuple(
        "-".join([split, *(FACTORS[name][row[i]] for i, name in enumerate(FACTORS)), str(number % copies)])
        for number, row in enumerate(values)
    )
    return Source(f"shapes/{split}", images, ids, factors["colour"], FACTORS["colour"], factors, FACTORS)


def _draw(row: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    shape, colour, size, position = (names[value] for names, value in zip(FACTORS.values(), row, strict=True))
    radius = SIZES[size] * rng.uniform(0.92, 1.08)
    centre = np.array(POSITIONS[position]) + rng.uniform(-1, 1, 2)
    ticks = (np.arange(SIZE * _GRID) + 0.5) / _GRID
    y, x = np.meshgrid((ticks - centre[0]) / radius, (ticks - centre[1]) / radius, indexing="ij")
    inside = {
        "disc": x**2 + y**2 < 1,
        "ring": (x**2 + y**2 < 1.1) & (x**2 + y**2 > 0.3),
        "triangle": (y < 0.8) & (abs(x) < (y + 1.1) * 0.6),
        "cross": (np.minimum(abs(x), abs(y)) < 0.3) & (np.maximum(abs(x), abs(y)) < 1.1),
    }[shape]
    cover = inside.reshape(SIZE, _GRID, SIZE, _GRID).mean((1, 3))[..., None]
    ink = np.array(COLOURS[colour]) * rng.uniform(0.9, 1.05)
    paper = rng.uniform(10, 40)
    image = cover * ink + (1 - cover) * paper + rng.normal(0, 3, (SIZE, SIZE, 3))
    return np.asarray(image.clip(0, 255), dtype=np.uint8)
