"""Random views of samples, on the device, repeatable by (seed, epoch, sample, view)."""

from nonneg.views._config import ViewConfig
from nonneg.views._draw import Drawn, draw
from nonneg.views._random import uniform
from nonneg.views._views import make_views, random_views

__all__ = ["Drawn", "ViewConfig", "draw", "make_views", "random_views", "uniform"]
