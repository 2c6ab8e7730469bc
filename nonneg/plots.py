"""Plots of figures against sizes: panels side by side with one line per name. Import it on first use: it is slow."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nonneg.durable import check_place, write_atomically
from nonneg.errors import InputError
from nonneg.extras import needs_extra

with needs_extra("plot", "a plot"):
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullLocator

_FORMATS = (".png", ".svg", ".pdf")
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "font.family": "sans-serif",
    "svg.hashsalt": "nonneg",  # the same input gives the same file
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a8f98",
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.grid": True,
    "grid.color": "#e6e8eb",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
}


@dataclass(frozen=True)
class Line:
    """The look of a line: lines differ in colour and, for print and for colour-blind readers, in their markers."""

    colour: str
    marker: str
    style: str = "-"


@dataclass(frozen=True)
class Panel:
    """One panel of a plot.

    Attributes:
        title: what is plotted.
        lines: name to points (x, y).
        is_share: y is shown in percent; otherwise it starts at 0.
        level: a name and a y that is drawn as a horizontal line.
        marked: a name and a point that is drawn as a ring.
    """

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    is_share: bool
    level: tuple[str, float] | None = None
    marked: tuple[str, tuple[float, float]] | None = None


@dataclass(frozen=True)
class Plot:
    """Panels side by side over the same sizes, which are on a logarithmic axis with a tick each.

    Attributes:
        panels: from left to right.
        xlabel: what the sizes are.
        looks: the look of each name's line.
    """

    panels: Sequence[Panel]
    xlabel: str
    looks: Mapping[str, Line] = field(default_factory=dict)

    def save(self, path: Path) -> Path:
        """Write the plot, in the format of the file's ending."""
        require_plot_format(path)
        sizes = sorted({x for panel in self.panels for points in panel.lines.values() for x, _ in points})
        with rc_context(_STYLE):
            figure = Figure(figsize=(3.5 * len(self.panels), 3.6), layout="constrained")
            for axis, panel in zip(figure.subplots(1, len(self.panels), squeeze=False)[0], self.panels, strict=True):
                self._draw(axis, panel)
                axis.set(title=panel.title, xlabel=self.xlabel, xscale="log", xticks=sizes)
                axis.xaxis.set_minor_locator(NullLocator())
                axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            handles, names = axis.get_legend_handles_labels()
            columns = len(names) if len(names) <= 6 else (len(names) + 1) // 2
            figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False)
            buffer = io.BytesIO()
            dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
            figure.savefig(buffer, format=path.suffix.lower()[1:], dpi=160, metadata=dated)
        write_atomically(path, buffer.getvalue())
        return path

    def _draw(self, axis: Any, panel: Panel) -> None:
        if panel.level is not None:
            axis.axhline(panel.level[1], color="#4a4e55", linestyle="--", linewidth=1, label=panel.level[0])
        for name, points in panel.lines.items():
            look = self.looks[name]
            options = {"color": look.colour, "marker": look.marker, "linestyle": look.style, "label": name}
            axis.plot(*zip(*points, strict=True), markersize=4.5, linewidth=1.6, **options)
        if panel.marked is not None:
            name, (x, y) = panel.marked
            ring = {"markersize": 13, "markerfacecolor": "none", "markeredgecolor": "#22262b", "markeredgewidth": 1.4}
            axis.plot([x], [y], "o", label=name, **ring)
        if panel.is_share:
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
        else:
            axis.set_ylim(bottom=0)


def require_plot_format(path: Path) -> None:
    """Raise an error if the file's ending is not a plot format."""
    if path.suffix.lower() not in _FORMATS:
        raise InputError(f"{path} ends in {path.suffix or 'nothing'!r}, expected one of {', '.join(_FORMATS)}")


def check_plot(path: Path, overwrite: bool) -> None:
    """Check that a plot can be written to this path, before the work that it shows."""
    require_plot_format(path)
    check_place(path)
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists already; choose another --out, or pass --overwrite to replace a plot")
