"""Tables of text cells, for the terminal and in Markdown; all columns but the first are numbers."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table


def rich_table(headings: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str | None = None) -> Table:
    """Return a table that rich prints."""
    table = Table(box=None, pad_edge=False, header_style="bold", caption=caption, caption_justify="left")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i else "left")
    for row in rows:
        table.add_row(*row)
    return table


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, without a line end.

    Example:
        >>> print(markdown_table(["", "CL"], [["probe", "90%"]]))
        |  | CL |
        | --- | ---: |
        | probe | 90% |
    """
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
