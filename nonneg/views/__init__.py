"""Random views of samples, on the device, repeatable by (seed, epoch, sample, view)."""

from nonneg.views._random import uniform
from nonneg.views._views import ViewConfig, two_views

__all__ = ["ViewConfig", "two_views", "uniform"]
