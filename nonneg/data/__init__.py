"""Samples: where they come from and what is known of them."""

from nonneg.data._open import Split, open_source
from nonneg.data._source import Source

__all__ = ["Source", "Split", "open_source"]
