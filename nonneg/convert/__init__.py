"""Readable features from existing vectors, as scikit-learn estimators."""

from typing import TYPE_CHECKING, Any

from nonneg.convert._classifier import NonNegativeClassifier
from nonneg.convert._config import FitConfig, checked_config
from nonneg.convert._embedding import NonNegativeEmbedding
from nonneg.convert._explanation import Contribution, Explanation, WhatIf
from nonneg.convert._inputs import Inputs, encoded_inputs, open_inputs
from nonneg.convert._neighbours import neighbours_kept
from nonneg.convert._pair import NonNegativePair
from nonneg.convert._rows import have_one_direction
from nonneg.convert._run import Converted, convert_file
from nonneg.convert._text_vectors import SentenceModel
from nonneg.convert._verify import verify

if TYPE_CHECKING:
    from nonneg.convert._sentence import NonNegativeHead

__all__ = [
    "Contribution",
    "Converted",
    "Explanation",
    "FitConfig",
    "Inputs",
    "NonNegativeClassifier",
    "NonNegativeEmbedding",
    "NonNegativeHead",
    "NonNegativePair",
    "SentenceModel",
    "WhatIf",
    "checked_config",
    "convert_file",
    "encoded_inputs",
    "have_one_direction",
    "neighbours_kept",
    "open_inputs",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "NonNegativeHead":  # needs sentence-transformers, which may be missing and is slow to import
        from nonneg.convert._sentence import NonNegativeHead

        return NonNegativeHead
    raise AttributeError(f"module 'nonneg.convert' has no attribute {name!r}")
