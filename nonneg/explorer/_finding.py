"""Samples by keyword: those whose text, id or label contains all words."""

from functools import reduce

import numpy as np
import pyarrow.compute as pc

from nonneg.explorer._answers import FoundSamples
from nonneg.explorer._feature_set import FeatureSet
from nonneg.payload import Array

_MAX_WORDS, _MAX_ROWS = 10, 20_000


def found_samples(features: FeatureSet, text: str, label: str | None, shown: int) -> FoundSamples:
    """Return the samples that contain all words of a text, and have a label if one is given."""
    words = text.lower().split()[:_MAX_WORDS]
    masks = [_contains(features, word) for word in words]
    if label is not None:
        masks.append(features.has_label(label))
    rows = np.flatnonzero(reduce(np.logical_and, masks)) if masks else np.zeros(0, int)
    return FoundSamples(
        total=len(rows),
        rows=tuple(rows[:_MAX_ROWS].tolist()),
        samples=tuple(features.sample(int(row)) for row in rows[:shown]),
    )


def _contains(features: FeatureSet, word: str) -> Array:
    samples = features.features.samples
    found = np.zeros(len(features), bool)
    for name in ("text", "id"):
        if name in samples.column_names:
            lower = pc.utf8_lower(samples[name])
            found |= np.asarray(pc.fill_null(pc.match_substring(lower, word), False))
    if "id" not in samples.column_names and word.isdecimal() and int(word) < len(features):
        found[int(word)] = True
    if features.labels is not None:
        matching = [word in label.lower() for label in features.labels.names]
        found |= np.isin(np.asarray(features.features.labels), features.labels.numbers[matching])
    return found
