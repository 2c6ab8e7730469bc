"""Reports of results: one self-contained page, or figures for a page of your own."""

from nonneg.report._page import Search, Side, Table, picture_of, write_report
from nonneg.report._pictures import write_curves, write_pictures

__all__ = ["Search", "Side", "Table", "picture_of", "write_curves", "write_pictures", "write_report"]
