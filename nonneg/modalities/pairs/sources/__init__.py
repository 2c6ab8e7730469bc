"""Where pairs come from: tables with a column per side, archives, Hugging Face datasets and bundled data."""

from nonneg.modalities.pairs.sources._bundled import emoji_pictures
from nonneg.modalities.pairs.sources._open import open_pairs, picture_files
from nonneg.modalities.pairs.sources._table import Columns, NotPairsError

__all__ = ["Columns", "NotPairsError", "emoji_pictures", "open_pairs", "picture_files"]
