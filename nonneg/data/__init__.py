"""Samples: where they come from and what is known of them."""

from nonneg.data._collection import UndividedError
from nonneg.data._open import open_source
from nonneg.data._source import Source
from nonneg.data._tables import ids_within, open_vectors, read_column, split_name
from nonneg.data._vectors import arrow_vectors, as_float32

__all__ = [
    "Source",
    "UndividedError",
    "arrow_vectors",
    "as_float32",
    "ids_within",
    "open_source",
    "open_vectors",
    "read_column",
    "split_name",
]
