"""Search samples by their features and see why each was found: one `Index`, several engines."""

from nonneg.search._encoder import Encoder, encoder_for, select_columns
from nonneg.search._engine import ENGINES, Found, Where
from nonneg.search._find import Hit, Hits, find, named_features
from nonneg.search._folders import index_folder, named_run, parsed_features, search_folder
from nonneg.search._index import Contribution, Index, verify
from nonneg.search._marks import Mark, word_marks
from nonneg.search._query import Query, numbered, parsed_feature
from nonneg.search._rank import contributions, rank, samples_with, samples_without

__all__ = [
    "ENGINES",
    "Contribution",
    "Encoder",
    "Found",
    "Hit",
    "Hits",
    "Index",
    "Mark",
    "Query",
    "Where",
    "contributions",
    "encoder_for",
    "find",
    "index_folder",
    "named_features",
    "named_run",
    "numbered",
    "parsed_feature",
    "parsed_features",
    "rank",
    "samples_with",
    "samples_without",
    "search_folder",
    "select_columns",
    "verify",
    "word_marks",
]
