"""Everything specific to images in this room: corrupted images, random views, rows read lazily."""

from nonneg.trials.images._changed import lazy_rows, viewed_source
from nonneg.trials.images._corruptions import KINDS, SEVERITIES, corrupt, corrupted_source

__all__ = ["KINDS", "SEVERITIES", "corrupt", "corrupted_source", "lazy_rows", "viewed_source"]
