"""Encoders of texts: from tokens to `(texts, width)`."""

from nonneg.modalities.texts.encoders._pretrained import PREFIX, PooledTexts, own_pooling, pretrained_encoder
from nonneg.modalities.texts.encoders._transformer import Pooling, Transformer, pooled

__all__ = ["PREFIX", "PooledTexts", "Pooling", "Transformer", "own_pooling", "pooled", "pretrained_encoder"]
