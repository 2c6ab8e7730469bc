"""Networks that end in non-negative features; saving, loading, embedding."""

from nonneg.models._encoders import ENCODERS
from nonneg.models._model import Layer, Model, ModelConfig, load

__all__ = ["ENCODERS", "Layer", "Model", "ModelConfig", "load"]
