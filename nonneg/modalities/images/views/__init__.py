"""Random views of samples, on the device, repeatable by (seed, epoch, sample, view)."""

from nonneg.modalities.images.views._config import ViewConfig, check_views
from nonneg.modalities.images.views._draw import Drawn, draw
from nonneg.modalities.images.views._random import uniform
from nonneg.modalities.images.views._views import make_views, random_views

__all__ = ["Drawn", "ViewConfig", "check_views", "draw", "make_views", "random_views", "uniform"]
