"""Networks with non-negative features: building, saving, loading, embedding."""

from nonneg.models._agreement import with_agreement
from nonneg.models._config import OWN_ENCODER, ModelConfig
from nonneg.models._embed import EmbedOptions, embed_data
from nonneg.models._model import Model, output_width, projector_of
from nonneg.models._store import fetched, load, verify, weights_digest
from nonneg.models._stream import Layer, Precision, embed_rows

__all__ = [
    "OWN_ENCODER",
    "EmbedOptions",
    "Layer",
    "Model",
    "ModelConfig",
    "Precision",
    "embed_data",
    "embed_rows",
    "fetched",
    "load",
    "output_width",
    "projector_of",
    "verify",
    "weights_digest",
    "with_agreement",
]
