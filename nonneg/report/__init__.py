"""Reports of results: one self-contained page, or figures for a page of your own."""

from nonneg.extras import needs_extra

with needs_extra("train", "a report"):  # checked before anything else is imported
    import jinja2  # noqa: F401
    import matplotlib  # noqa: F401

from nonneg.report._page import Search, Side, Table, picture_of, write_report
from nonneg.report._pictures import write_curves, write_pictures

__all__ = ["Search", "Side", "Table", "picture_of", "write_curves", "write_pictures", "write_report"]
