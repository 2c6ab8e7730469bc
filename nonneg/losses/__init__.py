"""Losses as pure functions of features.

Contrastive losses (`info_nce`, `spectral`, `neighbourhood`), losses without negatives (`barlow_twins`, `vicreg`),
losses over two modalities (`multimodal`) and losses that use labels (`supervised`).
"""

from nonneg.losses import multimodal, supervised
from nonneg.losses._decorrelation import barlow_twins, vicreg
from nonneg.losses._info_nce import info_nce
from nonneg.losses._neighbourhood import neighbourhood
from nonneg.losses._spectral import spectral

__all__ = ["barlow_twins", "info_nce", "multimodal", "neighbourhood", "spectral", "supervised", "vicreg"]
