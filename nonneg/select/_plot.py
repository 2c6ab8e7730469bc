"""The plot of a sweep: three panels with one line per selector."""

from pathlib import Path
from typing import TYPE_CHECKING

from nonneg.plots import Line, Panel, Plot

if TYPE_CHECKING:
    from nonneg.select._sweep import Sweep

_LINES = {
    "expected-activation": Line("#d9722b", "o"),
    "absolute-activation": Line("#c9a227", "v"),
    "unrectified-activation": Line("#9a5fb4", "D"),
    "variance": Line("#3b7dd8", "s"),
    "reconstruction": Line("#2a9d9d", "P"),
    "mutual-information": Line("#4c9f70", "^"),
    "elimination": Line("#2f4b5c", "p"),
    "sepin": Line("#b5484a", "X"),
    "random": Line("#8a8f98", "o", ":"),
}
_OTHER_LINES = (Line("#7a5c3e", "<"), Line("#d064a0", ">"), Line("#4a4e55", "*"))
_PANELS = (("probe", "linear probe"), ("precision", "precision@10"), ("bytes", "bytes per sample"))


def plot(sweep: "Sweep", path: Path) -> Path:
    """Write the plot, in the format of the file's ending."""
    whole = sweep.points[-1]
    names = list(dict.fromkeys(point.by for point in sweep.points[:-1]))
    looks = {name: _LINES.get(name, _OTHER_LINES[place % len(_OTHER_LINES)]) for place, name in enumerate(names)}
    panels = []
    for field, title in _PANELS:
        lines = {
            name: [(point.keep, getattr(point, field)) for point in sweep.points if point.by == name or point is whole]
            for name in names
        }
        level = (f"all {whole.keep:,} features", getattr(whole, field))
        panels.append(Panel(title, lines, is_share=field != "bytes", level=level))
    return Plot(panels, "features kept", looks).save(path)
