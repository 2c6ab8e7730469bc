"""Bundled pairs: emoji drawn by two vendors, with their names and keywords (see the folder `emoji`)."""

import json
import lzma
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nonneg.errors import InputError
from nonneg.modalities._source import Source
from nonneg.modalities.pairs._rows import pair_source
from nonneg.modalities.texts import TextRows

if TYPE_CHECKING:
    from nonneg.modalities.pairs._modality import Pairs

VENDORS = ("noto", "twemoji")
_SIDE = 64
_PALETTE = 3 * 256  # bytes
# Tenths of the emoji; those that differ only in the gender of a person are in the same one.
_PARTS = {"train": range(2, 10), "test": range(2), "all": range(10)}


def emoji(split: str, pairs: "Pairs") -> Source:
    """Return pictures of emoji by Noto and Twemoji with their names, keywords and colours.

    The label is the Unicode subgroup. Pictures of one emoji are never negatives of each other.

    A test emoji is in the test split with the pictures of both vendors; the split "all" has every emoji.
    """
    if split not in _PARTS:
        raise InputError(f"split is {split!r}, expected one of {', '.join(_PARTS)}")
    if pairs.sides != ("image", "text"):
        raise InputError(f"emoji are images with texts, expected these sides instead of {' and '.join(pairs.sides)}")
    every: list[dict[str, Any]] = json.loads(_content("words.json"))
    rows = [row for row, each in enumerate(every) if each["part"] in _PARTS[split]]
    chosen = [every[row] for row in rows]
    pictures = [emoji_pictures(vendor)[rows] for vendor in VENDORS]
    images = Source(
        f"emoji/{split}",
        np.concatenate(pictures),
        tuple(f"{each['id']}-{vendor}" for vendor in VENDORS for each in chosen),
    )
    described = [
        ", ".join(dict.fromkeys((each["name"], *each["words"], *each["colours"][vendor])))
        for vendor in VENDORS
        for each in chosen
    ]
    texts = Source(f"emoji/{split}", TextRows(described), images.ids)
    names = tuple(sorted({each["subgroup"] for each in every}))
    numbers = [names.index(each["subgroup"]) for each in chosen]
    return pair_source(
        pairs.first.open(images),
        pairs.second.open(texts),
        groups=np.tile(np.arange(len(chosen)), len(VENDORS)),
        name=f"emoji/{split}",
        labels=np.tile(numbers, len(VENDORS)),
        label_names=names,
    )


@lru_cache(len(VENDORS))  # a demo opens them often
def emoji_pictures(vendor: str) -> npt.NDArray[np.uint8]:
    """Return all pictures of a vendor, `(pictures, side, side, 3)`."""
    content = np.frombuffer(_content(vendor), np.uint8)
    palette, columns = content[:_PALETTE].reshape(-1, 3), content[_PALETTE:].reshape(-1, _SIDE, _SIDE)
    pictures = palette[columns.swapaxes(1, 2)]  # stored column by column, which compresses best
    pictures.flags.writeable = False
    return pictures


def _content(name: str) -> bytes:
    return lzma.decompress((resources.files("nonneg.modalities.pairs.sources") / "emoji" / f"{name}.xz").read_bytes())
