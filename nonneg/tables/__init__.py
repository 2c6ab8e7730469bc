"""Vectors, labels and texts in files of many formats: `file.npz:title`, `news.csv:2`."""

from nonneg.tables._tables import ROW_NAMES, column_names, ids_within, open_vectors, read_column, split_name
from nonneg.tables._vectors import arrow_vectors, as_column, as_floats, check_vector_type

__all__ = [
    "ROW_NAMES",
    "arrow_vectors",
    "as_column",
    "as_floats",
    "check_vector_type",
    "column_names",
    "ids_within",
    "open_vectors",
    "read_column",
    "split_name",
]
