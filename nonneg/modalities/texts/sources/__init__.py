"""Where texts come from: files, Hugging Face datasets, Python lists and bundled data."""

from nonneg.modalities.texts.sources._open import BrokenTextError, Columns, fault_of, open_texts
from nonneg.modalities.texts.sources._table import ListTable, column_called

__all__ = ["BrokenTextError", "Columns", "ListTable", "column_called", "fault_of", "open_texts"]
