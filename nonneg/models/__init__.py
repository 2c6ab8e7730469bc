"""Networks that end in non-negative features; saving, loading, embedding."""

from nonneg.models._backbones import imported
from nonneg.models._config import ModelConfig
from nonneg.models._embed import embed_data, source_for
from nonneg.models._encoders import ENCODERS
from nonneg.models._model import Layer, Model, projector_of
from nonneg.models._resnet import ResNet
from nonneg.models._store import fetched, load
from nonneg.models._stream import Precision
from nonneg.models._thumbnails import thumbnails

__all__ = [
    "ENCODERS",
    "Layer",
    "Model",
    "ModelConfig",
    "Precision",
    "ResNet",
    "embed_data",
    "fetched",
    "imported",
    "load",
    "projector_of",
    "source_for",
    "thumbnails",
]
