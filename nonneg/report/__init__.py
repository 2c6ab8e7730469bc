"""Results as one self-contained page."""

from nonneg.report._page import Side, Table, write_report

__all__ = ["Side", "Table", "write_report"]
