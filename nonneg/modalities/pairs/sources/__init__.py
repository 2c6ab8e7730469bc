"""Where pairs come from: tables with a column per side, archives, Hugging Face datasets and bundled data."""

from nonneg.modalities.pairs.sources._open import Columns, open_pairs, picture_files

__all__ = ["Columns", "open_pairs", "picture_files"]
