"""Networks that end in non-negative features; saving, loading, embedding."""

from nonneg.models._config import ModelConfig
from nonneg.models._embed import embed_data, source_for
from nonneg.models._model import Layer, Model, projector_of
from nonneg.models._store import fetched, load
from nonneg.models._stream import Precision, embed_rows

__all__ = [
    "Layer",
    "Model",
    "ModelConfig",
    "Precision",
    "embed_data",
    "embed_rows",
    "fetched",
    "load",
    "projector_of",
    "source_for",
]
