"""Reports of results: one self-contained page, or figures for a page of your own."""

from nonneg.report._page import Side, Table, write_report
from nonneg.report._pictures import write_curves, write_pictures

__all__ = ["Side", "Table", "write_curves", "write_pictures", "write_report"]
