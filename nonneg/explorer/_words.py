"""Hints for features of texts: the words that distinguish a feature's texts from the others."""

import numpy as np

from nonneg.errors import InputError
from nonneg.features import Features

_MAX_TEXTS = 20_000  # texts that can be read within seconds


def distinctive_words(features: Features) -> dict[int, str]:
    """Return words for each feature, from all texts or a random sample of them; empty if texts share no words."""
    from nonneg.evaluate import suggest_names  # imports torch

    if len(features) > _MAX_TEXTS:
        rows = np.sort(np.random.default_rng(0).choice(len(features), _MAX_TEXTS, replace=False))
        features = features.take(rows)
    try:
        return {feature: found.name for feature, found in suggest_names(features).items()}
    except InputError:
        return {}
