"""Bundled pairs: emoji drawn by two vendors, with their names and keywords (see the folder `emoji`)."""

import io
import json
import lzma
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from nonneg.errors import InputError
from nonneg.modalities._source import Source
from nonneg.modalities.pairs._rows import pair_source
from nonneg.modalities.texts import TextRows

if TYPE_CHECKING:
    from nonneg.modalities.pairs._modality import Pairs

VENDORS = ("noto", "twemoji")
_SIDE = 64
# Tenths of the emoji; those that differ only in the gender of a person are in the same one.
_PARTS = {"train": range(2, 10), "test": range(2), "all": range(10)}


def emoji(split: str, pairs: "Pairs") -> Source:
    """Return pictures of emoji by Noto and Twemoji with their names and keywords; the label is the Unicode subgroup.

    A test emoji is in the test split with the pictures of both vendors; the split "all" has every emoji.
    """
    if split not in _PARTS:
        raise InputError(f"split is {split!r}, expected one of {', '.join(_PARTS)}")
    if pairs.sides != ("image", "text"):
        raise InputError(f"emoji are images with texts, expected these sides instead of {' and '.join(pairs.sides)}")
    folder = resources.files("nonneg.modalities.pairs.sources") / "emoji"
    every: list[dict[str, Any]] = json.loads(lzma.decompress((folder / "words.json.xz").read_bytes()))
    rows = [row for row, each in enumerate(every) if each["part"] in _PARTS[split]]
    chosen = [every[row] for row in rows]
    pictures = [_tiles((folder / f"{vendor}.png").read_bytes(), len(every))[rows] for vendor in VENDORS]
    images = Source(
        f"emoji/{split}",
        np.concatenate(pictures),
        tuple(f"{each['id']}-{vendor}" for vendor in VENDORS for each in chosen),
    )
    described = [", ".join(dict.fromkeys((each["name"], *each["words"]))) for each in chosen]
    texts = Source(f"emoji/{split}", TextRows(described), tuple(each["id"] for each in chosen))
    names = tuple(sorted({each["subgroup"] for each in every}))
    numbers = [names.index(each["subgroup"]) for each in chosen]
    links = [(place * len(chosen) + row, row) for row in range(len(chosen)) for place in range(len(VENDORS))]
    return pair_source(
        pairs.first.open(images),
        pairs.second.open(texts),
        links,
        name=f"emoji/{split}",
        labels=np.repeat(numbers, len(VENDORS)),
        label_names=names,
    )


def _tiles(sheet: bytes, count: int) -> npt.NDArray[np.uint8]:
    """Return the first pictures of a sheet, row by row, `(count, side, side, 3)`."""
    pixels = np.asarray(Image.open(io.BytesIO(sheet)).convert("RGB"))
    down, across = (length // _SIDE for length in pixels.shape[:2])
    tiles = pixels.reshape(down, _SIDE, across, _SIDE, 3).swapaxes(1, 2)
    return np.ascontiguousarray(tiles.reshape(-1, _SIDE, _SIDE, 3)[:count])
