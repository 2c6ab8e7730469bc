"""Which words of a text switch a feature on: each word is left out in turn."""

import re
import unicodedata
from typing import NamedTuple

from nonneg.search._encoder import Encoder

# Scripts without spaces: Thai to Burmese, Khmer, kana, Chinese characters. A letter is followed by its vowel signs.
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SIGNS = "".join(chr(code) for code in range(0x0E00, 0x30FF) if unicodedata.category(chr(code)).startswith("M"))
_WORD = re.compile(f"[\u30a1-\u30ff]+|[{_UNSPACED}][{_SIGNS}]*|[^\\s{_UNSPACED}]+")
_MOST_WORDS = 256
METHOD = "the feature's value with all words, less its value without this word"


class Mark(NamedTuple):
    """A word of a text, from its first character to its last one (exclusive), and its effect on a feature.

    The effect is positive if the feature is weaker without the word.
    """

    start: int
    stop: int
    effect: float


def word_marks(encoder: Encoder, text: str, feature: int) -> tuple[float, tuple[Mark, ...]]:
    """Return a feature's value on a text, and the effect of each of its first 256 words: `METHOD`.

    Args:
        encoder: an encoder of texts.
        text: the text. A word is what stands between white space; in scripts without spaces, a letter with its signs,
            or a run of katakana.
        feature: the feature's column.
    """
    spans = [found.span() for found in _WORD.finditer(text)][:_MOST_WORDS]
    without = [text[:start] + text[stop:] for start, stop in spans]
    is_left = [bool(each.strip()) for each in without]  # nothing is left of a single word
    codes = encoder.text_codes([text, *(each for each, left in zip(without, is_left, strict=True) if left)])
    whole, *rest = codes[:, [feature]].toarray()[:, 0].tolist()
    values = iter(rest)
    effects = [whole - (next(values) if left else 0.0) for left in is_left]
    return whole, tuple(Mark(*span, effect) for span, effect in zip(spans, effects, strict=True))
