"""Results as one self-contained page, or as pictures for a page of one's own."""

from nonneg.report._page import Side, Table, write_report
from nonneg.report._pictures import write_curves, write_pictures

__all__ = ["Side", "Table", "write_curves", "write_pictures", "write_report"]
