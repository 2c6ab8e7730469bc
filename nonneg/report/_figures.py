"""Charts as inline SVG that is legible on light and dark backgrounds."""

import io
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt

matplotlib.use("Agg")  # no display needed
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

COLOURS = ("#8a8f98", "#d9722b", "#3b7dd8", "#4c9f70")
MORE_COLOURS = ("#b5508f", "#8c6d31", "#6a5acd", "#2f4b5c")
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "font.family": "sans-serif",
    "svg.fonttype": "none",
    "svg.hashsalt": "nonneg",  # makes files reproducible
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a8f98",
    "axes.labelcolor": "#8a8f98",
    "xtick.color": "#8a8f98",
    "ytick.color": "#8a8f98",
    "text.color": "#8a8f98",
    "axes.titlecolor": "#8a8f98",
    "legend.labelcolor": "#8a8f98",
}


def consistency_bars(per_feature: Mapping[str, npt.NDArray[Any]], floors: Mapping[str, float]) -> str:
    """Draw the class consistency of each model's features in descending order, with the chance level."""
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(1, len(per_feature), figsize=(9, 2.4), sharey=True, squeeze=False)
        for axis, (name, values), colour in zip(axes[0], per_feature.items(), COLOURS, strict=False):
            # Stairs are a single shape; separate bars would look striped.
            axis.stairs(np.sort(values)[::-1], color=colour, fill=True)
            axis.axhline(floors[name], color="#4a4e55", linestyle="--", linewidth=1)
            title = f"{name}: {len(values)} features, chance {floors[name]:.0%}"
            axis.set(title=title, ylim=(0, 1), xlabel="feature, most consistent first")
        axes[0][0].set_ylabel("share of the most common class")
        return _svg(figure)


def correlation_maps(matrices: Mapping[str, npt.NDArray[Any]]) -> str:
    """Draw the absolute correlations of live features, one map per model on a common scale."""
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(1, len(matrices), figsize=(7, 3.1), squeeze=False, layout="constrained")
        for axis, (name, matrix) in zip(axes[0], matrices.items(), strict=True):
            image = axis.imshow(
                abs(matrix) if len(matrix) else [[0]], vmin=0, vmax=1, cmap="magma", interpolation="nearest"
            )
            axis.set(title=f"{name}: {len(matrix)} features", xticks=[], yticks=[])
        figure.colorbar(image, ax=list(axes[0]), shrink=0.8, label="|correlation|")
        return _svg(figure)


def over_time(logs: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Draw loss and sparsity over the epochs."""
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(9, 2.4))
        for (name, log), colour in zip(logs.items(), COLOURS, strict=False):
            epochs = [line["epoch"] for line in log]
            axes[0].plot(epochs, [line["loss"] for line in log], color=colour, label=name)
            axes[1].plot(epochs, [line["sparsity"] for line in log], color=colour, label=name)
        axes[0].set(xlabel="epoch", ylabel="loss")
        axes[1].set(xlabel="epoch", ylabel="share of zero entries", ylim=(-0.03, 1.03))
        axes[0].legend(frameon=False)
        return _svg(figure)


def active_shares(shares: Mapping[str, npt.NDArray[Any]]) -> str:
    """Draw histograms of the share of features that are active per sample."""
    with plt.rc_context(_STYLE):
        figure, axis = plt.subplots(figsize=(5, 2.4))
        for (name, values), colour in zip(shares.items(), COLOURS, strict=False):
            weights = np.full(len(values), 1 / len(values))
            axis.hist(values, [i / 40 for i in range(41)], weights=weights, color=colour, alpha=0.8, label=name)
        axis.set(xlabel="share of features that are active", ylabel="share of samples", xlim=(0, 1))
        axis.legend(frameon=False)
        return _svg(figure)


def curves(
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], xlabel: str, ylabel: str, doubling: bool = False
) -> str:
    """Draw lines through (x, y) points, one panel per group. A name has the same colour in all panels.

    With `doubling`, the x axis is logarithmic with a tick at every x.
    """
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    colours = dict(zip(names, itertools.cycle((*COLOURS, *MORE_COLOURS)), strict=False))
    with plt.rc_context(_STYLE):
        size = (4 * len(panels) + 1.6, 2.7)
        figure, axes = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False, layout="constrained")
        drawn = {}
        for axis, (title, lines) in zip(axes[0], panels.items(), strict=True):
            for name, points in lines.items():
                marker = "." if len(points) < 15 else None
                (drawn[name],) = axis.plot(*zip(*points, strict=True), color=colours[name], marker=marker)
            axis.set(title=title, xlabel=xlabel)
            if doubling:
                ticks = sorted({x for points in lines.values() for x, _ in points})
                axis.set_xscale("log", base=2)
                axis.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
            else:
                axis.xaxis.get_major_locator().set_params(integer=True)
        axes[0][0].set_ylabel(ylabel)
        figure.legend([drawn[name] for name in names], names, loc="outside right center", frameon=False)
        return _svg(figure)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]  # without the XML declaration, which is invalid inside HTML
