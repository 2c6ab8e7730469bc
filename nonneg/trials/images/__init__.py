"""Changed images: corrupted, or replaced by random views. Everything specific to images in this room is here."""

from nonneg.trials.images._changed import viewed_source
from nonneg.trials.images._corruptions import KINDS, SEVERITIES, corrupt, corrupted_source

__all__ = ["KINDS", "SEVERITIES", "corrupt", "corrupted_source", "viewed_source"]
