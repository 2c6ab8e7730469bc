"""Where texts come from: files, Hugging Face datasets, Python lists and bundled data."""

from nonneg.modalities.texts.sources._open import Columns, open_texts

__all__ = ["Columns", "open_texts"]
