"""Images: their sources, views, encoders and previews."""

from nonneg.modalities.images._thumbnails import thumbnails
from nonneg.modalities.images.encoders._encoders import ENCODERS
from nonneg.modalities.images.encoders._resnet import ResNet
from nonneg.modalities.images.sources import open_source
from nonneg.modalities.images.views import Drawn, ViewConfig, check_views, draw, make_views, random_views, uniform

__all__ = [
    "ENCODERS",
    "Drawn",
    "ResNet",
    "ViewConfig",
    "check_views",
    "draw",
    "make_views",
    "open_source",
    "random_views",
    "thumbnails",
    "uniform",
]
