"""Encoders of texts: from tokens to `(texts, width)`."""

from nonneg.modalities.texts.encoders._transformer import Pooling, Transformer, pooled

__all__ = ["Pooling", "Transformer", "pooled"]
