"""Add the keywords of emojilib and the colours of the pictures to the words of the bundled emoji.

    npm pack emojilib@4.0.3 && tar xf emojilib-4.0.3.tgz
    python -m benchmarks.emoji_words --emojilib package/dist/emoji-en-US.json

Keywords of emojilib are added to those that are there, without words that only name a colour in Unicode's old names
(`heavy black heart` is red). Colours are measured: a picture has a colour if at least a quarter of its pixels that are
not white have it, two colours at most. White is not measured, because the pictures stand on white.
"""

import argparse
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import nonneg
from nonneg.modalities.pairs.sources import emoji_pictures

FOLDER = Path(nonneg.__file__).parent / "modalities" / "pairs" / "sources" / "emoji"
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "grey")
VENDORS = ("noto", "twemoji")
_HUES = {"red": (0, 14), "orange": (14, 38), "yellow": (38, 66), "green": (66, 165), "blue": (165, 255)}
_HUES |= {"purple": (255, 300), "pink": (300, 340)}
_LEAST = {**dict.fromkeys(COLOURS, 0.25), "grey": 0.4}  # of the pixels that are not white
_MOST = 2
_NOT_WHITE = 20  # pixels; with fewer, a picture has no colour


def colours_of(pixels: npt.NDArray[np.uint8]) -> list[str]:
    """Return the colours of a picture `(height, width, 3)`, the most frequent one first.

    Example:
        >>> colours_of(np.array([[[220, 30, 30]] * 20 + [[255, 255, 255]] * 80], np.uint8))
        ['red']
    """
    rgb = pixels.reshape(-1, 3).astype(np.float32) / 255
    most, spread = rgb.max(1), np.ptp(rgb, axis=1)
    red, green, blue = rgb.T
    divisor = np.maximum(spread, 1e-6)
    sector = np.select(
        [most == red, most == green],
        [((green - blue) / divisor) % 6, (blue - red) / divisor + 2],
        (red - green) / divisor + 4,
    )
    hue, saturation = 60 * sector, spread / np.maximum(most, 1e-6)
    is_red = (hue < 14) | (hue >= 340)
    is_dark, is_coloured = most < 0.22, saturation > 0.25
    is_brown = ((hue >= 8) & (hue < 45) & (most < 0.8) & ((saturation < 0.75) | (most < 0.6))) | (
        is_red & (most < 0.42)
    )
    cases = {
        "black": is_dark | (~is_coloured & (most < 0.35)),
        "white": ~is_coloured & (most >= 0.82),
        "grey": ~is_coloured,
        "brown": is_brown,
        "pink": (is_red & (most > 0.75) & (saturation < 0.55)) | ((hue >= 300) & (hue < 340)),
        "red": is_red,
        **{name: (hue >= start) & (hue < end) for name, (start, end) in _HUES.items() if name not in ("red", "pink")},
    }
    names = list(cases)
    found = np.select(list(cases.values()), range(len(names)), len(names))
    count = {name: int((found == number).sum()) for number, name in enumerate(names)}
    coloured = len(found) - count.pop("white")
    if coloured < _NOT_WHITE:
        return []
    order = sorted(count, key=lambda name: -count[name])
    return [name for name in order if count[name] >= _LEAST[name] * coloured][:_MOST]


def with_keywords(each: dict[str, Any], more: list[str]) -> list[str]:
    """Return an emoji's keywords and those of emojilib, in alphabetical order, without its name."""
    added = {word.replace("_", " ").lower() for word in more}
    own = set(each["words"])
    known = {each["name"].lower().replace(":", "").replace("-", " "), *(word.lower() for word in own)}
    return sorted(own | {word for word in added - known if word not in ("black", "white")})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emojilib", type=Path, required=True)
    given = parser.parse_args()
    file = FOLDER / "words.json.xz"
    every: list[dict[str, Any]] = json.loads(lzma.decompress(file.read_bytes()))
    library = json.loads(given.emojilib.read_text(encoding="utf-8"))
    more = {emoji.replace("\ufe0f", ""): words for emoji, words in library.items()}
    sheets = {vendor: emoji_pictures(vendor) for vendor in VENDORS}
    for row, each in enumerate(every):
        each["words"] = with_keywords(each, more.get(each["emoji"].replace("\ufe0f", ""), []))
        each["colours"] = {vendor: colours_of(sheet[row]) for vendor, sheet in sheets.items()}
    file.write_bytes(lzma.compress(json.dumps(every, ensure_ascii=False).encode(), preset=9))
    print(
        f"{len(every):,} emoji, {sum(len(each['words']) for each in every):,} keywords, {file.stat().st_size:,} bytes"
    )


if __name__ == "__main__":
    main()
