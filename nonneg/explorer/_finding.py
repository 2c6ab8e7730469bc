"""Samples by keyword: those whose text, id or label contains all words."""

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nonneg.explorer._answers import FoundSamples
from nonneg.explorer._feature_set import FeatureSet
from nonneg.payload import Array

_MAX_ROWS = 20_000
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"  # scripts without spaces


def found_samples(features: FeatureSet, text: str, label: str | None, shown: int) -> FoundSamples:
    """Return the samples that contain all words of a text, and have a label if one is given.

    Words match at the beginnings of words, as *micro* in *Microsoft*, and anywhere in scripts without spaces.
    """
    words = sorted(set(text.lower().split()), key=len, reverse=True)  # long words leave the fewest rows to search
    rows = np.arange(len(features) if words or label is not None else 0)
    if label is not None:
        rows = rows[features.has_label(label)]
    for word in words:
        if len(rows):
            rows = rows[_contain(features, rows, word)]
    return FoundSamples(
        total=len(rows),
        rows=tuple(rows[:_MAX_ROWS].tolist()),
        samples=tuple(features.sample(int(row)) for row in rows[:shown]),
    )


def _contain(features: FeatureSet, rows: npt.NDArray[np.int_], word: str) -> Array:
    """Return which of the rows contain a word."""
    samples = features.features.samples
    found = np.zeros(len(rows), bool)
    for name in ("text", "id"):
        if name in samples.column_names:
            found |= _match(samples[name].take(rows), word)
    if "id" not in samples.column_names and word.isdecimal():
        found |= rows == int(word)
    if features.labels is not None:
        matching = features.labels.numbers[_match(pa.array(features.labels.names), word)]
        found |= np.isin(np.asarray(features.features.labels)[rows], matching)
    return found


def _match(texts: pa.Array | pa.ChunkedArray, word: str) -> Array:
    """Return in which texts a word begins like this one."""
    is_anywhere = pc.match_substring_regex(pa.scalar(word), rf"^(?:[^\p{{L}}\p{{N}}]|[{_UNSPACED}])").as_py()
    before = "" if is_anywhere else rf"(?:^|[^\p{{L}}\p{{M}}\p{{N}}]|[{_UNSPACED}])"
    return np.asarray(pc.fill_null(pc.match_substring_regex(pc.utf8_lower(texts), before + re.escape(word)), False))
