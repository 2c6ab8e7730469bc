"""Finding with readable codes, and seeing why: one `Index`, several engines."""

from typing import TYPE_CHECKING, Any

from nonneg.search._engine import ENGINES, Found, Where
from nonneg.search._find import Hit, Hits, find
from nonneg.search._folders import index_folder, parsed_features, search_folder
from nonneg.search._index import Contribution, Index
from nonneg.search._query import Query, parsed_feature

if TYPE_CHECKING:
    from nonneg.search._encode import image_codes

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
    "parsed_features",
    "search_folder",
]


def __getattr__(name: str) -> Any:
    if name == "image_codes":  # brings torch with it, which searching need not wait for
        from nonneg.search._encode import image_codes

        return image_codes
    raise AttributeError(f"module 'nonneg.search' has no attribute {name!r}")
