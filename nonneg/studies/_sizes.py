"""What `n_components` and `max_active` cost and bring: one fit per pair, measured on the same held-out rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from sklearn.base import clone

from nonneg import metrics
from nonneg.convert import NonNegativeEmbedding, checked_config, encoded_inputs, neighbours_kept
from nonneg.errors import InputError
from nonneg.evaluate import markdown_table, rich_table
from nonneg.progress import progress_bar
from nonneg.studies._held_out import Split, probe_held_out, split_rows

_FACTORS = (0.25, 0.5, 1, 2)  # of the given sizes
_PROBE, _NEIGHBOURS = 0.01, 0.1  # how far below the best figures a recommended size may be
_COLOURS = ("#8a8f98", "#d9722b", "#3b7dd8", "#4c9f70", "#b5508f", "#8c6d31")
_MARKERS = "osD^vP"


@dataclass(frozen=True)
class Size:
    """One pair of sizes and its figures on held-out rows.

    Attributes:
        n_components: number of features.
        max_active: maximum number of active features per row.
        neighbours_kept: share of the 10 nearest rows that are the same for vectors and codes.
        probe: accuracy of a linear probe on the codes; None without labels.
        bytes: of a stored row: 8 per active feature if under half are active, otherwise 4 per feature.
        dead: features that are active on no row of the fit.
    """

    n_components: int
    max_active: int
    neighbours_kept: float
    probe: float | None
    bytes: float
    dead: int


@dataclass(frozen=True)
class Sizes:
    """Figures of several sizes on the same held-out rows. It prints as a table with rich.

    Attributes:
        points: one per pair of sizes.
        raw_probe: accuracy of the probe on the vectors themselves; None without labels.
        protocol: number of rows of both parts, steps and seed.
    """

    points: tuple[Size, ...]
    raw_probe: float | None
    protocol: Mapping[str, Any]

    @property
    def recommended(self) -> Size:
        """The smallest size that is nearly as good as the best.

        Of all sizes whose neighbours are at most 10 points, and whose probe is at most 1 point below the best, the one
        with the fewest bytes per row, and of these the one with the fewest features.
        """
        best = max(point.neighbours_kept for point in self.points)
        best_probe = max(point.probe or 0 for point in self.points)
        good = [
            point
            for point in self.points
            if point.neighbours_kept >= best - _NEIGHBOURS and (point.probe or 0) >= best_probe - _PROBE
        ]
        # The two figures may have different best sizes, with no size near both: then neighbours decide.
        good = good or [point for point in self.points if point.neighbours_kept >= best - _NEIGHBOURS]
        return min(good, key=lambda point: (round(point.bytes), point.n_components))

    def markdown(self) -> str:
        """Return the table in Markdown, with the recommendation below it."""
        return f"{markdown_table(self._headings(), self._cells())}\n\n{self._notes()}\n"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "protocol": dict(self.protocol),
            "raw_probe": self.raw_probe,
            "points": [asdict(point) for point in self.points],
            "recommended": asdict(self.recommended),
        }

    def plot(self, path: str | Path) -> Path:
        """Plot the figures against `max_active`, one line per `n_components`, to a .png, .svg or .pdf file."""
        from nonneg.plots import Line, Panel, Plot

        counts = list(dict.fromkeys(point.n_components for point in self.points))
        names = {count: f"{count:,} features" for count in counts}
        looks = {name: Line(_COLOURS[i % 6], _MARKERS[i % 6]) for i, name in enumerate(names.values())}

        def panel(title: str, value: Callable[[Size], float], is_share: bool, level: float | None = None) -> Panel:
            lines = {
                names[count]: [(point.max_active, value(point)) for point in self.points if point.n_components == count]
                for count in counts
            }
            marked = ("recommended", (self.recommended.max_active, value(self.recommended)))
            return Panel(title, lines, is_share, ("raw vectors", level) if level is not None else None, marked)

        panels = [
            panel("neighbours kept", lambda point: point.neighbours_kept, True),
            panel("bytes per row", lambda point: point.bytes, False),
        ]
        if self.raw_probe is not None:
            panels.append(panel("linear probe", lambda point: point.probe or 0, True, self.raw_probe))
        return Plot(panels, "max_active", looks).save(Path(path))

    def __rich__(self) -> Table:
        return rich_table(self._headings(), self._cells(), caption=self._notes())

    def _headings(self) -> list[str]:
        probe = [] if self.raw_probe is None else ["probe"]
        return ["n_components", "max_active", "neighbours kept", *probe, "bytes per row", "dead features"]

    def _cells(self) -> Iterator[list[str]]:
        for point in self.points:
            probe = [] if point.probe is None else [f"{point.probe:.1%}"]
            sizes = [f"{point.n_components:,}", str(point.max_active), f"{point.neighbours_kept:.1%}"]
            yield [*sizes, *probe, f"{point.bytes:,.0f}", f"{point.dead:,}"]

    def _notes(self) -> str:
        given, chosen = self.protocol, self.recommended
        raw = "" if self.raw_probe is None else f" The probe on the vectors themselves is {self.raw_probe:.1%}."
        rule = "10 points of neighbours" + (" and 1 point of the probe" if self.raw_probe is not None else "")
        fitted = f"Fitted on {given['train_rows']:,} rows, {given['max_iter']:,} steps each, and measured on"
        return (
            f"Recommended: --n-components {chosen.n_components} --max-active {chosen.max_active}, the fewest bytes"
            f" within {rule} of the best.{raw} {fitted} {given['test_rows']:,} others; seed {given['seed']}."
        )


def sweep_sizes(
    vectors: Any,
    labels: Any = None,
    *,
    embedding: NonNegativeEmbedding | None = None,
    n_components: Sequence[int] | None = None,
    max_active: Sequence[int] | None = None,
    train_rows: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Sizes:
    """Fit an embedding for each pair of sizes, and measure its codes on held-out rows.

    Args:
        vectors: `(rows, width)`: an array or memory map.
        labels: `(rows,)` whole numbers or strings, for the probe; negative numbers, NaN, None and "" are unlabelled.
        embedding: its other parameters; by default `NonNegativeEmbedding()`.
        n_components: numbers of features; by default a quarter, half, once and twice that of `embedding`.
        max_active: numbers of active features, in the same way. Pairs with more than half of the features active are
            left out.
        train_rows: number of rows to fit on; by default 80%, at most 20,000.
        seed: of the fits.
        progress: show a progress bar on standard error.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(80, 6))
        >>> small = NonNegativeEmbedding(max_iter=2)
        >>> sizes = sweep_sizes(x, embedding=small, n_components=[16, 32], max_active=[2, 4], progress=False)
        >>> [(size.n_components, size.max_active, round(size.bytes)) for size in sizes.points]
        [(16, 2, 16), (16, 4, 32), (32, 2, 16), (32, 4, 32)]
    """
    embedding = NonNegativeEmbedding() if embedding is None else embedding
    if embedding.supervised:
        raise InputError("supervised is True, expected False: the sweep compares fits without labels")
    counts = _sizes("n_components", n_components, embedding.n_components)
    actives = _sizes("max_active", max_active, embedding.max_active)
    pairs = [(count, active) for count in counts for active in actives if 2 * active <= count]
    if not pairs:
        raise InputError(f"max_active is {actives[0]} or more, expected at most half of n_components, {counts[-1]}")
    for count, active in pairs:
        checked_config(embedding.get_params() | {"n_components": count, "max_active": active}, 0)
    split = split_rows(vectors, None, labels, train_rows, None)
    points = []
    with progress_bar(progress) as bar:
        task = bar.add_task("", total=len(pairs))
        for count, active in pairs:
            bar.update(task, description=f"{count:,} features, {active} active")
            parameters = {"n_components": count, "max_active": active, "random_state": seed}
            points.append(_measure(clone(embedding).set_params(**parameters), split))
            bar.advance(task)
    protocol = {"train_rows": len(split.train), "test_rows": len(split.test), "seed": seed}
    return Sizes(tuple(points), _probe(split.train, split.test, split), protocol | {"max_iter": embedding.max_iter})


def sweep_sizes_of_file(
    vectors: str,
    labels: str | None = None,
    out: Path | None = None,
    overwrite: bool = False,
    sentence_model: str | None = None,
    embedding: NonNegativeEmbedding | None = None,
    progress: bool = True,
    **settings: Any,
) -> Sizes:
    """Run `sweep_sizes` on vectors, or texts, and labels from files; plot it to `out` if given."""
    if out is not None:
        from nonneg.plots import check_plot  # matplotlib is slow to load

        check_plot(out, overwrite)
    device = "auto" if embedding is None else embedding.device
    given = encoded_inputs(vectors, None, labels, sentence_model, device, progress)
    found = sweep_sizes(given.vectors, given.labels, embedding=embedding, progress=progress, **settings)
    if out is not None:
        found.plot(out)
    return found


def _measure(embedding: NonNegativeEmbedding, split: Split) -> Size:
    embedding.fit(split.train)
    train, test = embedding.encode(split.train), embedding.encode(split.test)
    return Size(
        n_components=embedding.n_components,
        max_active=int(embedding.max_active or 0),
        neighbours_kept=neighbours_kept(split.test, test),
        probe=_probe(train, test, split),
        bytes=float(metrics.stored_bytes(test)),
        dead=int((~metrics.live_features(train)).sum()),
    )


def _probe(train: Any, test: Any, split: Split) -> float | None:
    if split.train_labels is None:
        return None
    probe = probe_held_out(train, split.train_labels, test, split.test_labels)
    return None if probe is None else probe.accuracy


def _sizes(name: str, given: Sequence[int] | None, usual: int | None) -> list[int]:
    if given is not None and not given:
        raise InputError(f"{name} is empty, expected at least one number")
    if given is not None:
        return sorted(set(given))
    if usual is None or usual < 1:
        raise InputError(f"{name} is {usual}, expected a number of at least 1, around which sizes are compared")
    return sorted({max(1, round(factor * usual)) for factor in _FACTORS})
