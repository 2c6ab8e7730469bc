"""Tables of text cells, for terminals and for Markdown."""

from collections.abc import Collection, Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import TextType


def rich_table(
    headings: Sequence[TextType],
    rows: Iterable[Iterable[RenderableType]],
    left: Collection[int] = (0,),
    caption: str | None = None,
) -> Table:
    """Return a table for a terminal.

    Args:
        headings: one per column.
        rows: the cells of each row.
        left: the columns that are aligned left; the others are aligned right.
        caption: the text below the table.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", caption=caption, caption_justify="left")
    for column, heading in enumerate(headings):
        table.add_column(heading, justify="left" if column in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def markdown_table(headings: Sequence[str], rows: Iterable[Iterable[str]], left: Collection[int] = (0,)) -> str:
    """Return the lines of a Markdown table, without a line break at the end.

    Args:
        headings, rows, left: as for `rich_table`.

    Example:
        >>> print(markdown_table(["", "probe"], [["a|\\nb", "90%"]]))
        |  | probe |
        | --- | ---: |
        | a\\| b | 90% |
    """
    marks = ["---" if column in left else "---:" for column in range(len(headings))]
    lines = ([" ".join(cell.split()).replace("|", "\\|") for cell in line] for line in (headings, marks, *rows))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
