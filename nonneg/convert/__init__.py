"""Readable features from existing vectors, as scikit-learn estimators."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nonneg.convert._classifier import NonNegativeClassifier
    from nonneg.convert._config import FitConfig, checked_config
    from nonneg.convert._embedding import NonNegativeEmbedding
    from nonneg.convert._explanation import Contribution, Explanation, WhatIf
    from nonneg.convert._inputs import Inputs, open_inputs
    from nonneg.convert._neighbours import neighbours_kept
    from nonneg.convert._pair import NonNegativePair
    from nonneg.convert._rows import have_one_direction
    from nonneg.convert._run import Converted, convert_file
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
    "WhatIf",
    "checked_config",
    "convert_file",
    "have_one_direction",
    "neighbours_kept",
    "open_inputs",
]

# Where each name is defined. They are imported on first use: the command line takes the defaults of `FitConfig`
# without importing torch, and sentence-transformers, which `NonNegativeHead` needs, may be missing.
_HOMES = {
    "Contribution": "_explanation",
    "Converted": "_run",
    "Explanation": "_explanation",
    "FitConfig": "_config",
    "Inputs": "_inputs",
    "NonNegativeClassifier": "_classifier",
    "NonNegativeEmbedding": "_embedding",
    "NonNegativeHead": "_sentence",
    "NonNegativePair": "_pair",
    "WhatIf": "_explanation",
    "checked_config": "_config",
    "convert_file": "_run",
    "have_one_direction": "_rows",
    "neighbours_kept": "_neighbours",
    "open_inputs": "_inputs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nonneg.convert' has no attribute {name!r}")
    return getattr(importlib.import_module(f"nonneg.convert.{_HOMES[name]}"), name)
