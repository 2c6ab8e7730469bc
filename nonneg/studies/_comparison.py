"""What comes of a comparison: figures by method and column, as a table, Markdown or JSON."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from rich.table import Table

from nonneg.studies._peers import METHODS

COLUMNS = {
    "features": ("features", "{:.0f}"),
    "active": ("active", "{:.1f}"),
    "dead": ("dead", "{:.0f}"),
    "probe": ("probe", "{:.1%}"),
    "consistency": ("consistency", "{:.3f}"),
    "consistency_floor": ("chance", "{:.3f}"),
    "consistency_excess": ("excess", "{:.3f}"),
    "recall_at_1": ("recall@1", "{:.3f}"),
    "neighbours_kept": ("neighbours kept", "{:.3f}"),
    "bytes": ("bytes", "{:,.0f}"),
    "seconds": ("seconds", "{:.1f}"),
}


@dataclass(frozen=True)
class Comparison:
    """Figures of several methods on the same held-out rows. It prints as a table with rich.

    Attributes:
        rows: method to column to its values, one a seed. A column that a method cannot fill is left out of its row.
        columns: those that could be measured, in order: without labels there is no probe and no consistency,
            without pairs no recall@1.
        protocol: rows of both splits, settings and seeds.
        notes: what a reader of the table has to know, such as peers that did not converge.
    """

    rows: Mapping[str, Mapping[str, list[float]]]
    columns: tuple[str, ...]
    protocol: Mapping[str, Any]
    notes: tuple[str, ...]

    def markdown(self) -> str:
        """The table in Markdown, notes below it."""
        headings = ["", *(COLUMNS[column][0] for column in self.columns)]
        lines = [headings, ["---", *["---:"] * len(self.columns)], *self._cells()]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n".join([table, "", *(f"- {note}" for note in (self._setting(), *self.notes))]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: all values, means and standard errors; what cannot be measured is null."""
        methods = {
            name: {
                column: {
                    "mean": _or_none(fmean(values)),
                    "standard_error": _or_none(_standard_error(values)) if len(values) > 1 else None,
                    "values": [_or_none(value) for value in values],
                }
                for column, values in row.items()
            }
            for name, row in self.rows.items()
        }
        return {"protocol": dict(self.protocol), "methods": methods, "notes": list(self.notes)}

    def __rich__(self) -> Table:
        caption = "\n".join((self._setting(), *self.notes))
        table = Table(box=None, pad_edge=False, header_style="bold", caption=caption, caption_justify="left")
        table.add_column("on held-out rows")
        for column in self.columns:
            table.add_column(COLUMNS[column][0], justify="right")
        for cells in self._cells():
            table.add_row(*cells)
        return table

    def _cells(self) -> Iterator[list[str]]:
        for name, row in self.rows.items():
            yield [METHODS[name].title, *(_cell(row.get(column, []), COLUMNS[column][1]) for column in self.columns)]

    def _setting(self) -> str:
        told = self.protocol
        seeds = ", ".join(map(str, told["seeds"]))
        return (
            f"{told['train_rows']:,} train and {told['test_rows']:,} test rows, {told['n_components']:,} features of"
            f" which {told['max_active']} may be active, {'seeds' if len(told['seeds']) > 1 else 'seed'} {seeds}."
        )


def _standard_error(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) / math.sqrt(len(values))


def _cell(values: list[float], form: str) -> str:
    """The mean and, of several values, its standard error; a dash where nothing was or could be measured."""
    if not values or math.isnan(mean := fmean(values)):
        return "—"
    told = form.format(mean)
    return f"{told} ± {form.format(_standard_error(values))}" if len(values) > 1 else told


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
