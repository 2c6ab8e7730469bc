"""The plot of a sweep: three panels with one line per selector."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nonneg.durable import write_atomically
from nonneg.errors import InputError
from nonneg.extras import needs_extra

with needs_extra("plot", "a plot"):
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullLocator

if TYPE_CHECKING:
    from nonneg.select._sweep import Sweep

_FORMATS = (".png", ".svg", ".pdf")
# Lines differ in colour and, for print and for colour-blind readers, in their markers.
_LINES = {
    "expected-activation": ("#d9722b", "o"),
    "absolute-activation": ("#c9a227", "v"),
    "unrectified-activation": ("#9a5fb4", "D"),
    "variance": ("#3b7dd8", "s"),
    "reconstruction": ("#2a9d9d", "P"),
    "mutual-information": ("#4c9f70", "^"),
    "elimination": ("#2f4b5c", "p"),
    "sepin": ("#b5484a", "X"),
    "random": ("#8a8f98", "o"),
}
_OTHER_LINES = (("#7a5c3e", "<"), ("#d064a0", ">"), ("#4a4e55", "*"))
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
_PANELS = (("probe", "linear probe"), ("precision", "precision@10"), ("bytes", "bytes per sample"))


def require_plot_format(path: Path) -> None:
    """Raise an error if the file's ending is not a plot format."""
    if path.suffix.lower() not in _FORMATS:
        raise InputError(f"{path} ends in {path.suffix or 'nothing'!r}, expected one of {', '.join(_FORMATS)}")


def plot(sweep: "Sweep", path: Path) -> Path:
    """Write the plot, in the format of the file's ending."""
    require_plot_format(path)
    whole = sweep.points[-1]
    names = list(dict.fromkeys(point.by for point in sweep.points[:-1]))
    counts = sorted({point.keep for point in sweep.points})
    with rc_context(_STYLE):
        figure = Figure(figsize=(10.5, 3.6), layout="constrained")
        for axis, (field, title) in zip(figure.subplots(1, len(_PANELS)), _PANELS, strict=True):
            level = getattr(whole, field)
            axis.axhline(level, color="#4a4e55", linestyle="--", linewidth=1, label=f"all {whole.keep:,} features")
            for place, name in enumerate(names):
                colour, marker = _LINES.get(name, _OTHER_LINES[place % len(_OTHER_LINES)])
                line = [point for point in sweep.points if point.by == name]
                axis.plot(
                    [*(point.keep for point in line), whole.keep],
                    [*(getattr(point, field) for point in line), level],
                    color=colour,
                    marker=marker,
                    markersize=4.5,
                    linewidth=1.6,
                    linestyle=":" if name == "random" else "-",
                    label=name,
                )
            axis.set(title=title, xlabel="features kept", xscale="log", xticks=counts)
            axis.xaxis.set_minor_locator(NullLocator())
            axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            if field == "bytes":
                axis.set_ylim(bottom=0)
            else:
                axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
        handles, labels = axis.get_legend_handles_labels()
        columns = len(labels) if len(labels) <= 6 else (len(labels) + 1) // 2
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
        buffer = io.BytesIO()
        dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
        figure.savefig(buffer, format=path.suffix.lower()[1:], dpi=160, metadata=dated)
    write_atomically(path, buffer.getvalue())
    return path
