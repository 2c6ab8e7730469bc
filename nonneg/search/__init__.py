"""Finding with readable codes, and seeing why: one `Index`, several engines."""

from nonneg.search._encode import image_codes
from nonneg.search._engine import ENGINES, Found, Where
from nonneg.search._find import Hit, Hits, find
from nonneg.search._folders import index_folder, search_folder
from nonneg.search._index import Contribution, Index
from nonneg.search._query import Query, parsed_feature

__all__ = [
    "ENGINES",
    "Contribution",
    "Found",
    "Hit",
    "Hits",
    "Index",
    "Query",
    "Where",
    "find",
    "image_codes",
    "index_folder",
    "parsed_feature",
    "search_folder",
]
