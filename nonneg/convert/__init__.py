"""Readable features out of vectors that somebody already has, as scikit-learn estimators."""

from nonneg.convert._classifier import Contribution, Explanation, NonNegativeClassifier, WhatIf
from nonneg.convert._embedding import NonNegativeEmbedding
from nonneg.convert._neighbours import neighbours_kept

__all__ = [
    "Contribution",
    "Explanation",
    "NonNegativeClassifier",
    "NonNegativeEmbedding",
    "WhatIf",
    "neighbours_kept",
]
