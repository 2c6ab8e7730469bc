"""Images: their sources, views, encoders and previews."""

from nonneg.modalities.images._modality import Images
from nonneg.modalities.images.encoders import ENCODERS, ResNet
from nonneg.modalities.images.sources import open_source
from nonneg.modalities.images.views import Drawn, ViewConfig, draw, make_views, random_views

__all__ = [
    "ENCODERS",
    "Drawn",
    "Images",
    "ResNet",
    "ViewConfig",
    "draw",
    "make_views",
    "open_source",
    "random_views",
]
