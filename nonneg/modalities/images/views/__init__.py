"""Random views of images, drawn on the device, repeatable from (seed, epoch, sample, view)."""

from nonneg.modalities.images.views._config import ViewConfig
from nonneg.modalities.images.views._draw import Drawn, draw
from nonneg.modalities.images.views._ops import grey, resize
from nonneg.modalities.images.views._views import make_views, random_views

__all__ = ["Drawn", "ViewConfig", "draw", "grey", "make_views", "random_views", "resize"]
