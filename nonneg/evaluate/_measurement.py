"""What `measure` returns: figures side by side with their error bars, as a table in any form."""

import csv
import html
import io
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from nonneg.durable import write_atomically
from nonneg.errors import InputError
from nonneg.evaluate._figure import PERCENT, Figure
from nonneg.evaluate._statistics import Difference, paired_difference

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[str, str]


@dataclass(frozen=True)
class Measured:
    """The figures of one subject: a run of one seed, or features.

    Attributes:
        path: where it was found.
        seed: of its training, or None.
        protocol: how probes were fitted and told.
        figures: by key and layer.
        samples: the same where the test samples are the same, in the same order.
        notes: what could not be measured, and why.
    """

    path: str
    seed: int | None
    protocol: str
    figures: Mapping[Row, Figure]
    samples: str = ""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; what is not a number is null. Values of single samples are left out."""
        figures = [
            {
                "key": figure.key,
                "layer": figure.layer,
                "title": figure.title,
                "value": _number(figure.value),
                "interval": _pair(figure.interval),
                "form": figure.form,
                "variant": figure.variant,
            }
            for figure in self.figures.values()
        ]
        told = {"path": self.path, "seed": self.seed, "protocol": self.protocol, "samples": self.samples}
        return {**told, "notes": list(self.notes), "figures": figures}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> "Measured":
        """What `to_dict` gave."""
        figures = {}
        for line in told["figures"]:
            value = math.nan if line["value"] is None else line["value"]
            low_high = None if line["interval"] is None else (line["interval"][0], line["interval"][1])
            interval = None if low_high is None or None in low_high else low_high
            how = line["form"], None, interval, line.get("variant", "")
            figures[line["key"], line["layer"]] = Figure(line["key"], line["layer"], line["title"], value, *how)
        return cls(
            told["path"], told["seed"], told["protocol"], figures, told.get("samples", ""), tuple(told.get("notes", ()))
        )


@dataclass(frozen=True)
class Measurement:
    """Figures of several subjects, one column each; runs of the same thing with other seeds share a column.

    It prints as a table with rich and shows itself in a notebook.

    Attributes:
        columns: name to its subjects, one a seed.
        facts: hardware, versions and commit.
    """

    columns: Mapping[str, tuple[Measured, ...]]
    facts: Mapping[str, str]

    @property
    def rows(self) -> list[Row]:
        """Keys and layers in the order they were measured, the encoder's first."""
        seen = {row: None for column in self.columns.values() for one in column for row in one.figures}
        return sorted(seen, key=lambda row: row[1])

    def values(self, column: str, row: Row) -> list[float]:
        """One a seed."""
        return [one.figures[row].value for one in self.columns[column] if row in one.figures]

    def difference(self, row: Row, first: str, second: str) -> Difference | None:
        """`second - first`: over the seeds they share if those are two or more, else over the same test samples."""
        theirs, ours = ([one for one in self.columns[name] if row in one.figures] for name in (first, second))
        values = [{one.seed: one.figures[row].value for one in column} for column in (theirs, ours)]
        shared = [seed for seed in values[0] if seed in values[1] and seed is not None]
        if len(shared) > 1:
            return paired_difference([values[0][s] for s in shared], [values[1][s] for s in shared], "seeds")
        if len(ours) == 1 == len(theirs) and ours[0].samples == theirs[0].samples:
            a, b = theirs[0].figures[row].samples, ours[0].figures[row].samples
            if a is not None and b is not None and len(a) == len(b):
                return paired_difference(a, b, "samples")
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: every value, interval and difference; what is not a number is null."""
        columns = {name: [one.to_dict() for one in column] for name, column in self.columns.items()}
        differences = [
            {
                "of": second,
                "to": first,
                "figure": row[0],
                "layer": row[1],
                "mean": _number(found.mean),
                "interval": _pair((found.low, found.high)),
                "p": _number(found.p),
                "over": found.over,
            }
            for first, second in self._pairs()
            for row in self.rows
            if (found := self.difference(row, first, second)) is not None
        ]
        return {"facts": dict(self.facts), "columns": columns, "differences": differences}

    def to_frame(self) -> "pd.DataFrame":
        """One line a column, seed, layer and figure; needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise InputError("to_frame needs pandas, which is not installed; to_dict() holds the same") from error
        return pd.DataFrame(self._lines())

    def markdown(self) -> str:
        """The table in Markdown, notes below it."""
        lines = [self.headings(), ["---", *["---:"] * (len(self.headings()) - 1)], *(line for _, line in self.cells())]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return "\n".join([table, "", *(f"- {note}" for note in self._notes())]) + "\n"

    def html(self) -> str:
        """The table as an HTML fragment."""

        def row(title: str, cells: list[str], tag: str) -> str:
            told = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
            return f"<tr><th>{html.escape(title)}</th>{told}</tr>\n"

        head = row("", self.headings()[1:], "th")
        body = "".join(row(title, cells, "td") for _, (title, *cells) in self.cells())
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self._notes())
        return f"<table><thead>{head}</thead>\n<tbody>{body}</tbody></table>\n<ul>{notes}</ul>\n"

    def _repr_html_(self) -> str:
        return self.html()

    def save(self, path: str | Path) -> Path:
        """Write a .md, .json, .html or .csv file."""
        path = Path(path)
        require_table(path)
        forms: dict[str, Callable[[], str]] = {
            ".md": self.markdown,
            ".json": lambda: json.dumps(self.to_dict(), indent=1),
            ".html": self.html,
            ".csv": self._csv,
        }
        write_atomically(path, forms[path.suffix]().encode())
        return path

    def __rich__(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", caption="\n".join(self._notes()))
        table.caption_justify = "left"
        for i, heading in enumerate(self.headings()):
            table.add_column(heading, justify="right" if i else "left", overflow="fold")
        for _, line in self.cells():
            table.add_row(*line)
        return table

    # How it is laid out

    def _lines(self) -> list[dict[str, Any]]:
        return [
            {
                "column": name,
                "seed": one.seed,
                "layer": figure.layer,
                "figure": figure.key,
                "value": figure.value,
                "low": math.nan if figure.interval is None else figure.interval[0],
                "high": math.nan if figure.interval is None else figure.interval[1],
            }
            for name, column in self.columns.items()
            for one in column
            for figure in one.figures.values()
        ]

    def _csv(self) -> str:
        text = io.StringIO()
        writer = csv.DictWriter(text, ["column", "seed", "layer", "figure", "value", "low", "high"])
        writer.writeheader()
        writer.writerows(self._lines())
        return text.getvalue()

    def _pairs(self) -> list[tuple[str, str]]:
        first, *others = self.columns
        return [(first, other) for other in others]

    def _compared(self) -> list[tuple[str, str]]:
        """Pairs of columns with a difference in some row."""
        return [pair for pair in self._pairs() if any(self.difference(row, *pair) for row in self.rows)]

    def headings(self) -> list[str]:
        """Of the columns that `cells` has."""
        return ["", *self.columns, *(f"{second} - {first}" for first, second in self._compared())]

    def cells(self) -> Iterator[tuple[Row, list[str]]]:
        """Row by row: its title, a cell for each column, and one for each difference."""
        layers = {layer for _, layer in self.rows}
        for row in self.rows:
            figures = [one.figures[row] for column in self.columns.values() for one in column if row in one.figures]
            title = f"{figures[0].title}, {row[1]}" if len(layers) > 1 else figures[0].title
            told = [self._cell(column, row) for column in self.columns]
            differences = [_told(self.difference(row, *pair), figures[0].form) for pair in self._compared()]
            yield row, [title, *told, *differences]

    def _cell(self, column: str, row: Row) -> str:
        figures = [one.figures[row] for one in self.columns[column] if row in one.figures]
        values = [figure.value for figure in figures]
        if not values or math.isnan(mean := float(np.mean(values))):
            return "—"
        form = figures[0].form
        if len(values) > 1:
            return f"{form.format(mean)} ± {form.format(float(np.std(values, ddof=1)))}"
        interval = figures[0].interval
        if interval is None or math.isnan(interval[0]):
            return form.format(mean)
        return f"{form.format(mean)} [{form.format(interval[0])}, {form.format(interval[1])}]"

    def _notes(self) -> Iterator[str]:
        for name, column in self.columns.items():
            seeds = ", ".join(str(one.seed) for one in column if one.seed is not None)
            told = f"; seed{'s' if ',' in seeds else ''} {seeds}" if seeds else ""
            yield f"{name}: {', '.join(one.path for one in column)}{told}; {column[0].protocol}."
        yield from dict.fromkeys(
            f"{name}: {note}" for name, column in self.columns.items() for one in column for note in one.notes
        )
        measured = (figure for column in self.columns.values() for one in column for figure in one.figures.values())
        yield from dict.fromkeys(f"{figure.variant}." for figure in measured if figure.variant)
        several = any(len(column) > 1 for column in self.columns.values())
        if several:
            yield "± is the standard deviation over seeds."
        alone = (column[0] for column in self.columns.values() if len(column) == 1)
        if any(figure.interval is not None for one in alone for figure in one.figures.values()):
            yield "Brackets hold 95% intervals over test samples (bootstrap; SEPIN and class consistency: normal)."
        for pair in self._compared():
            over = {found.over for row in self.rows if (found := self.difference(row, *pair))}
            yield f"{pair[1]} - {pair[0]}: paired over {' or '.join(sorted(over))}, 95% interval and p of a t-test."
        yield "; ".join(f"{name} {value}" for name, value in self.facts.items())


def require_table(path: Path) -> None:
    """Refuse, before any work, what a table cannot be written to."""
    endings = (".md", ".json", ".html", ".csv")
    if path.suffix not in endings:
        raise InputError(f"{path} ends in {path.suffix or 'nothing'!r}, expected {', '.join(endings)}")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(f"{path} cannot be written: {path.parent} is no folder that can be written to")


def _told(difference: Difference | None, form: str) -> str:
    if difference is None or math.isnan(difference.mean):
        return "—"
    scale, form = (100, "{:+.1f}") if form == PERCENT else (1, form.replace(":", ":+"))
    mean, low, high = (form.format(scale * value) for value in (difference.mean, difference.low, difference.high))
    if math.isnan(difference.p):
        return mean
    p = f"{difference.p:.2g}" if difference.p >= 0.001 else "< 0.001"
    return f"{mean} [{low}, {high}] p {p}"


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _pair(interval: tuple[float, float] | None) -> list[float | None] | None:
    return None if interval is None else [_number(interval[0]), _number(interval[1])]
