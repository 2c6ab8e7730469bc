"""Vectors, labels and texts in files of many kinds: `file.npz:title`, `news.csv:2`."""

from nonneg.tables._tables import ids_within, open_vectors, read_column, split_name
from nonneg.tables._vectors import arrow_vectors, as_float32

__all__ = ["arrow_vectors", "as_float32", "ids_within", "open_vectors", "read_column", "split_name"]
