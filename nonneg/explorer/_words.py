"""Words for features of texts, to be shown where nobody has named them; of as many texts as are read in seconds."""

from typing import Any

import numpy as np

from nonneg.features import Features

_TEXTS = 20_000


def words_of(features: Features) -> dict[int, str]:
    """Feature to the words that set its texts apart; empty where texts share none."""
    from nonneg.errors import InputError
    from nonneg.evaluate import suggest_names  # brings torch with it

    try:
        return {feature: found.name for feature, found in suggest_names(_some(features)).items()}
    except InputError:
        return {}


def _some(features: Features) -> Features:
    """All of them, or as many as can be read in seconds, drawn at random."""
    if len(features) <= _TEXTS:
        return features
    rows: Any = np.sort(np.random.default_rng(0).choice(len(features), _TEXTS, replace=False))
    return Features(features.codes[rows], texts=features.samples["text"].take(rows).to_pylist())
