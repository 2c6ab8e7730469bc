"""What `measure` returns: figures with error bars, as a table in several formats."""

import csv
import html
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from rich.table import Table

from nonneg.durable import check_place, write_atomically
from nonneg.errors import InputError
from nonneg.evaluate._statistics import Difference, bootstrap_interval, paired_difference
from nonneg.extras import import_extra
from nonneg.layout import markdown_table, rich_table

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[str, str]
Array = npt.NDArray[np.float64]
PERCENT, COUNT = "{:.1%}", "{:.0f}"
DECIMALS = "{:.3f}"
"""The format of a figure with three decimals."""


@dataclass(frozen=True)
class Figure:
    """One number.

    Attributes:
        key: its name in JSON.
        layer: "encoder" or "projector".
        title: its name in a table.
        value: the number.
        form: the format string that prints it.
        samples: the value of each test sample if the number is their mean; for intervals and paired differences.
        interval: 95% confidence interval over samples, or None.
        variant: how it was computed, if there are several ways.
    """

    key: str
    layer: str
    title: str
    value: float
    form: str = PERCENT
    samples: Array | None = None
    interval: tuple[float, float] | None = None
    variant: str = ""


def mean_figure(key: str, layer: str, title: str, samples: Any, variant: str = "") -> Figure:
    """Return the mean of `(samples,)` values, with its bootstrap interval; values that are NaN are left out."""
    values = np.asarray(samples.cpu() if isinstance(samples, torch.Tensor) else samples, np.float64)
    mean = float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
    return Figure(key, layer, title, mean, PERCENT, values, bootstrap_interval(values), variant)


def error_figure(
    key: str, layer: str, title: str, value: float, error: float, form: str = PERCENT, variant: str = ""
) -> Figure:
    """Return a number between 0 and 1 with its interval, that of a normal distribution with this standard error."""
    low, high = np.clip((value - 1.96 * error, value + 1.96 * error), 0, 1)
    return Figure(key, layer, title, value, form, None, (float(low), float(high)), variant)


@dataclass(frozen=True)
class Measured:
    """The figures of one subject: a run of one seed, or features.

    Attributes:
        path: where it was found.
        seed: the seed of its training, or None.
        protocol: what probes were fitted on and evaluated on; empty if a note says why there are none.
        figures: by key and layer.
        samples: a digest of the test samples, in order.
        notes: what could not be measured, and why.
    """

    path: str
    seed: int | None
    protocol: str
    figures: Mapping[Row, Figure]
    samples: str = ""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON; NaN becomes null. Values of single samples are left out."""
        figures = [
            {
                "key": figure.key,
                "layer": figure.layer,
                "title": figure.title,
                "value": finite_or_none(figure.value),
                "interval": _pair(figure.interval),
                "form": figure.form,
                "variant": figure.variant,
            }
            for figure in self.figures.values()
        ]
        return {
            "path": self.path,
            "seed": self.seed,
            "protocol": self.protocol,
            "samples": self.samples,
            "notes": list(self.notes),
            "figures": figures,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Measured":
        """Restore what `to_dict` returned."""
        figures = {}
        for line in saved["figures"]:
            value = math.nan if line["value"] is None else line["value"]
            interval = None if None in (line["interval"] or [None]) else tuple(line["interval"])
            details = line["form"], None, interval, line.get("variant", "")
            figures[line["key"], line["layer"]] = Figure(line["key"], line["layer"], line["title"], value, *details)
        return cls(
            saved["path"],
            saved["seed"],
            saved["protocol"],
            figures,
            saved.get("samples", ""),
            tuple(saved.get("notes", ())),
        )


@dataclass(frozen=True)
class Measurement:
    """Figures of several subjects, one column each; runs that differ only in their seed share a column.

    It prints as a table with rich and is displayed as a table in a notebook.

    Attributes:
        columns: name to its subjects, one per seed.
        facts: hardware, versions and commit.
    """

    columns: Mapping[str, tuple[Measured, ...]]
    facts: Mapping[str, str]

    @property
    def rows(self) -> list[Row]:
        """Keys and layers in the order in which they were measured, those of the encoder first."""
        seen = {row: None for column in self.columns.values() for one in column for row in one.figures}
        return sorted(seen, key=lambda row: row[1])

    def values(self, column: str, row: Row) -> list[float]:
        """Return one value per seed."""
        return [one.figures[row].value for one in self.columns[column] if row in one.figures]

    def difference(self, row: Row, first: str, second: str) -> Difference | None:
        """Compare two columns on the same test samples: over at least two seeds that both have, else over samples."""
        first_runs, second_runs = (
            [one for one in self.columns[name] if row in one.figures] for name in (first, second)
        )
        values = [
            {(one.seed, one.samples): one.figures[row].value for one in column if one.seed is not None}
            for column in (first_runs, second_runs)
        ]
        shared = [key for key in values[0] if key in values[1]]
        if len(shared) > 1:
            return paired_difference([values[0][key] for key in shared], [values[1][key] for key in shared], "seeds")
        if len(first_runs) == 1 == len(second_runs) and first_runs[0].samples == second_runs[0].samples:
            a, b = first_runs[0].figures[row].samples, second_runs[0].figures[row].samples
            if a is not None and b is not None and len(a) == len(b):
                return paired_difference(a, b, "samples")
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON with every value, interval and difference; NaN becomes null."""
        columns = {name: [one.to_dict() for one in column] for name, column in self.columns.items()}
        differences = [
            {
                "of": second,
                "to": first,
                "figure": row[0],
                "layer": row[1],
                "mean": finite_or_none(found.mean),
                "interval": _pair((found.low, found.high)),
                "p": finite_or_none(found.p),
                "over": found.over,
            }
            for first, second in self._pairs()
            for row in self.rows
            if (found := self.difference(row, first, second)) is not None
        ]
        return {"facts": dict(self.facts), "columns": columns, "differences": differences}

    def to_frame(self) -> "pd.DataFrame":
        """Return a data frame with one row per column, seed, layer and figure; needs pandas."""
        frame: pd.DataFrame = import_extra("pandas", "Measurement.to_frame", extra="frames").DataFrame(self._lines())
        return frame

    def markdown(self) -> str:
        """Return the table in Markdown, with notes below it."""
        table = markdown_table(self.headings(), (line for _, line in self.cells()))
        return "\n".join([table, "", *(f"- {note}" for note in self._notes())]) + "\n"

    def html(self) -> str:
        """Return the table as an HTML fragment."""

        def row(title: str, cells: list[str], tag: str) -> str:
            row_cells = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
            return f"<tr><th>{html.escape(title)}</th>{row_cells}</tr>\n"

        head = row("", self.headings()[1:], "th")
        body = "".join(row(title, cells, "td") for _, (title, *cells) in self.cells())
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self._notes())
        return f"<table><thead>{head}</thead>\n<tbody>{body}</tbody></table>\n<ul>{notes}</ul>\n"

    _repr_html_ = html  # shown by notebooks

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
        return rich_table(self.headings(), (line for _, line in self.cells()), caption="\n".join(self._notes()))

    # Layout

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
        """Return the pairs of columns with a difference in some row."""
        return [pair for pair in self._pairs() if any(self.difference(row, *pair) for row in self.rows)]

    def headings(self) -> list[str]:
        """Return the headings of the columns of `cells`."""
        return ["", *self.columns, *(f"{second} - {first}" for first, second in self._compared())]

    def cells(self) -> Iterator[tuple[Row, list[str]]]:
        """Yield each row: its title, a cell per column, and a cell per difference."""
        layers = {layer for _, layer in self.rows}
        for row in self.rows:
            figures = [one.figures[row] for column in self.columns.values() for one in column if row in one.figures]
            title = f"{figures[0].title}, {row[1]}" if len(layers) > 1 else figures[0].title
            values = [self._cell(column, row) for column in self.columns]
            differences = [_difference_text(self.difference(row, *pair), figures[0].form) for pair in self._compared()]
            yield row, [title, *values, *differences]

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
            seeds = f"; seed{'s' if ',' in seeds else ''} {seeds}" if seeds else ""
            protocol = f"; {column[0].protocol}" if column[0].protocol else ""
            yield f"{name}: {', '.join(one.path for one in column)}{seeds}{protocol}."
        yield from dict.fromkeys(
            f"{name}: {note}" for name, column in self.columns.items() for one in column for note in one.notes
        )
        measured = (figure for column in self.columns.values() for one in column for figure in one.figures.values())
        yield from dict.fromkeys(f"{figure.variant}." for figure in measured if figure.variant)
        if any(len(column) > 1 for column in self.columns.values()):
            yield "± is the standard deviation over seeds."
        alone = (column[0] for column in self.columns.values() if len(column) == 1)
        if any(figure.interval is not None for one in alone for figure in one.figures.values()):
            kinds = "means: bootstrap; other statistics: normal"
            yield f"Brackets: 95% confidence interval over test samples ({kinds})."
        for pair in self._compared():
            over = {found.over for row in self.rows if (found := self.difference(row, *pair))}
            paired = f"paired over {' or '.join(sorted(over))}"
            yield f"{pair[1]} - {pair[0]}: {paired}, 95% confidence interval and p-value of a t-test."
        yield "; ".join(f"{name} {value}" for name, value in self.facts.items())


def require_table(path: Path) -> None:
    """Raise an error, before any work, if a table cannot be written to this path."""
    endings = (".md", ".json", ".html", ".csv")
    if path.suffix not in endings:
        raise InputError(f"{path} ends in {path.suffix or 'nothing'!r}, expected {', '.join(endings)}")
    check_place(path)


def _difference_text(difference: Difference | None, form: str) -> str:
    if difference is None or math.isnan(difference.mean):
        return "—"
    scale, form = (100, "{:+.1f}") if form == PERCENT else (1, form.replace(":", ":+"))
    mean, low, high = (form.format(scale * value) for value in (difference.mean, difference.low, difference.high))
    if math.isnan(difference.p):
        return mean
    p = f"{difference.p:.2g}" if difference.p >= 0.001 else "< 0.001"
    return f"{mean} [{low}, {high}] p {p}"


def finite_or_none(value: float) -> float | None:
    """Return the value for JSON, which has no NaN."""
    return float(value) if math.isfinite(value) else None


def _pair(interval: tuple[float, float] | None) -> list[float | None] | None:
    return None if interval is None else [finite_or_none(interval[0]), finite_or_none(interval[1])]
