"""The result of `compare`: figures by method and column, as a table, Markdown or JSON."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from nonneg.evaluate import finite_or_none, markdown_table, rich_table
from nonneg.studies._peers import METHODS


class Column(NamedTuple):
    """A column of the table: its heading and how its values are formatted."""

    heading: str
    form: str


# The figures of each method, all of codes of the test rows unless stated otherwise.
COLUMNS = {
    "features": Column("features", "{:.0f}"),
    # active features per row
    "active": Column("active", "{:.1f}"),
    # features that are active on no train row of the vectors
    "dead": Column("dead", "{:.0f}"),
    # accuracy of `linear_probe`, fitted on the train rows of the vectors
    "probe": Column("probe", "{:.1%}"),
    # class consistency of features active on 10 rows or more; with permuted labels; the difference
    "consistency": Column("consistency", "{:.3f}"),
    "consistency_floor": Column("chance", "{:.3f}"),
    "consistency_excess": Column("excess", "{:.3f}"),
    # how often a row of the pairs finds its own row among all rows of the vectors, by cosine
    "recall_at_1": Column("recall@1", "{:.3f}"),
    # share of the 10 nearest rows that are the same for vectors and codes
    "neighbours_kept": Column("neighbours kept", "{:.3f}"),
    # size of a row: 8 bytes per active feature if under half are active, otherwise 4 per feature
    "bytes": Column("bytes", "{:,.0f}"),
    # duration of the fit
    "seconds": Column("seconds", "{:.1f}"),
}


@dataclass(frozen=True)
class Comparison:
    """Figures of several methods on the same held-out rows. It prints as a table with rich.

    Attributes:
        rows: method to column to its values, one per seed. A row lacks the columns that its method cannot fill.
        columns: the measured columns, in order: probe and consistency need labels, recall@1 needs pairs.
        protocol: number of rows of both parts, settings and seeds.
        notes: remarks about the table, such as methods that did not converge.
    """

    rows: Mapping[str, Mapping[str, list[float]]]
    columns: tuple[str, ...]
    protocol: Mapping[str, Any]
    notes: tuple[str, ...]

    def markdown(self) -> str:
        """Return the table in Markdown, with the notes below it."""
        table = markdown_table(self._headings(""), self._cells())
        return "\n".join([table, "", *(f"- {note}" for note in (self._setting(), *self.notes))]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON: all values, means and standard errors; null for figures that could not be measured."""
        methods = {
            name: {
                column: {
                    "mean": finite_or_none(fmean(values)),
                    "standard_error": finite_or_none(_standard_error(values)) if len(values) > 1 else None,
                    "values": [finite_or_none(value) for value in values],
                }
                for column, values in row.items()
            }
            for name, row in self.rows.items()
        }
        return {"protocol": dict(self.protocol), "methods": methods, "notes": list(self.notes)}

    def __rich__(self) -> Table:
        return rich_table(
            self._headings("on held-out rows"), self._cells(), caption="\n".join((self._setting(), *self.notes))
        )

    def _headings(self, first: str) -> list[str]:
        return [first, *(COLUMNS[column].heading for column in self.columns)]

    def _cells(self) -> Iterator[list[str]]:
        for name, row in self.rows.items():
            yield [METHODS[name].title, *(_cell(row.get(column, []), COLUMNS[column].form) for column in self.columns)]

    def _setting(self) -> str:
        p = self.protocol
        seeds = ", ".join(map(str, p["seeds"]))
        return (
            f"{p['train_rows']:,} train and {p['test_rows']:,} test rows, {p['n_components']:,} features, at most"
            f" {p['max_active']} active, {'seeds' if len(p['seeds']) > 1 else 'seed'} {seeds}."
        )


def _standard_error(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) / math.sqrt(len(values))


def _cell(values: list[float], form: str) -> str:
    """Return the mean, with its standard error for several values; a dash if there is no value."""
    if not values or math.isnan(mean := fmean(values)):
        return "—"
    text = form.format(mean)
    return f"{text} ± {form.format(_standard_error(values))}" if len(values) > 1 else text
