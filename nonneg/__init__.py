"""Features people can read: non-negative, sparse, one meaning each.

>>> from nonneg import NonNegative, losses
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nonneg import losses, metrics, search, select, stores, theory
    from nonneg.convert import NonNegativeClassifier, NonNegativeEmbedding, NonNegativePair
    from nonneg.errors import InputError
    from nonneg.explorer import explore
    from nonneg.features import Features
    from nonneg.models import load
    from nonneg.rectify import NonNegative
    from nonneg.training import TrainConfig, train
    from nonneg.trials import measure

__version__ = "0.1.0"
__all__ = [
    "Features",
    "InputError",
    "NonNegative",
    "NonNegativeClassifier",
    "NonNegativeEmbedding",
    "NonNegativePair",
    "TrainConfig",
    "explore",
    "load",
    "losses",
    "measure",
    "metrics",
    "search",
    "select",
    "stores",
    "theory",
    "train",
]

# Where each public name lives. Imported when first asked for: `nonneg --help` must not wait for torch.
_HOMES = {
    "Features": "nonneg.features",
    "InputError": "nonneg.errors",
    "NonNegative": "nonneg.rectify",
    "NonNegativeClassifier": "nonneg.convert",
    "NonNegativeEmbedding": "nonneg.convert",
    "NonNegativePair": "nonneg.convert",
    "TrainConfig": "nonneg.training",
    "explore": "nonneg.explorer",
    "load": "nonneg.models",
    "measure": "nonneg.trials",
    "train": "nonneg.training",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in __all__:
        return importlib.import_module(f"nonneg.{name}")
    raise AttributeError(f"module 'nonneg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
