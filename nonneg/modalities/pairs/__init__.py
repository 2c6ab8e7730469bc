"""Pairs of two other modalities, such as images and their texts, that share one set of features."""

from nonneg.modalities.pairs._encoder import TwoSided
from nonneg.modalities.pairs._modality import Pairs
from nonneg.modalities.pairs._rows import pair_source

__all__ = ["Pairs", "TwoSided", "pair_source"]
