"""Losses as pure functions of features: InfoNCE, spectral, multi-modal, supervised."""

from nonneg.losses import multimodal, supervised
from nonneg.losses._info_nce import info_nce
from nonneg.losses._neighbourhood import neighbourhood
from nonneg.losses._spectral import spectral

__all__ = ["info_nce", "multimodal", "neighbourhood", "spectral", "supervised"]
