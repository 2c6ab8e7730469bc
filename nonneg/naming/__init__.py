"""Suggested names for features of texts: words and phrases that tell a feature apart, scored on held-out texts."""

from nonneg.naming._reader import Reader, area_under_roc
from nonneg.naming._suggest import (
    NamingTask,
    guessed_names,
    marked,
    reader_of,
    save_suggestions,
    suggest_names,
)

__all__ = [
    "NamingTask",
    "Reader",
    "area_under_roc",
    "guessed_names",
    "marked",
    "reader_of",
    "save_suggestions",
    "suggest_names",
]
