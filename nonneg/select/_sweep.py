"""All selectors side by side: what a probe, retrieval and storage make of fewer and fewer features."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from sklearn.base import clone

from nonneg import metrics
from nonneg.errors import InputError
from nonneg.evaluate import linear_probe, on_fastest_device
from nonneg.features import Features
from nonneg.progress import progress_bar
from nonneg.select._keep import SELECTORS, fitted, named_selector
from nonneg.select._scores import Array
from nonneg.select._selectors import require_count, strongest

ALL = "all features"
_NEIGHBOURS = 10


@dataclass(frozen=True)
class Point:
    """What one selector keeps.

    Attributes:
        by: the selector's name; "all features" where none are left out.
        keep: how many features.
        probe: accuracy of `linear_probe` on the test samples.
        precision: of the 10 nearest test samples, the share of the same label (fewer than 10 if there are fewer).
        bytes: of a test sample: 8 an active feature where under half are, else 4 a feature.
    """

    by: str
    keep: int
    probe: float
    precision: float
    bytes: float


@dataclass(frozen=True)
class Sweep:
    """Points by number of features, all of them last. It prints as a table with rich.

    Attributes:
        points: in order of `keep`, then of the selectors.
        protocol: samples of both sets, and the seed.
    """

    points: tuple[Point, ...]
    protocol: Mapping[str, Any]

    def markdown(self) -> str:
        """The table in Markdown, the protocol below it."""
        lines = [["keep", "by", *_COLUMNS], ["---:", "---", *["---:"] * len(_COLUMNS)], *self._cells()]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{self._setting()}\n"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"protocol": dict(self.protocol), "points": [asdict(point) for point in self.points]}

    def plot(self, path: str | Path) -> Path:
        """Draw probe, precision and bytes over the number of features; a .png, .svg or .pdf file."""
        from nonneg.select._plot import plot

        return plot(self, Path(path))

    def __rich__(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", caption=self._setting(), caption_justify="left")
        table.add_column("keep", justify="right")
        table.add_column("by")
        for column in _COLUMNS:
            table.add_column(column, justify="right")
        for cells in self._cells():
            table.add_row(*cells)
        return table

    def _cells(self) -> Iterator[list[str]]:
        before = None
        for point in self.points:
            number = f"{point.keep:,}" if point.keep != before else ""
            yield [number, point.by, f"{point.probe:.1%}", f"{point.precision:.1%}", f"{point.bytes:,.0f}"]
            before = point.keep

    def _setting(self) -> str:
        told = self.protocol
        return (
            f"{told['train_samples']:,} train samples, on which selectors and probe are fitted, and"
            f" {told['test_samples']:,} test samples; seed {told['seed']}."
        )


_COLUMNS = ("probe", f"precision@{_NEIGHBOURS}", "bytes a sample")


def sweep(
    train: Features,
    test: Features,
    keep: Sequence[int] | None = None,
    selectors: Sequence[str] | Mapping[str, Any] | None = None,
    *,
    views: Features | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Sweep:
    """Keep fewer features, by every selector, and measure what is left.

    Selectors are fitted on `train` alone; `test` is measured once a selection.

    Args:
        train, test: features with labels.
        keep: how many features to keep; a sixteenth, an eighth, a quarter and a half of them if left out. All of them
            are always measured, too.
        selectors: names, as on the command line, or name to selector. If left out, all that can be fitted; of
            features that are never negative the three kinds of activation are one and the same, and one is taken.
        views: a second view of the train samples, for `Sepin`.
        seed: of the random features, the samples `Sepin` draws and the probe's split.
        progress: show a progress bar on standard error.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(80) % 2
        >>> features = Features(np.column_stack((labels, rng.random((80, 3)))), labels=labels)
        >>> found = sweep(features, features, keep=[1], selectors=["mutual-information"], progress=False)
        >>> [(point.by, point.keep, point.probe) for point in found.points]
        [('mutual-information', 1, 1.0), ('all features', 4, 1.0)]
    """
    features = train.shape[1]
    if test.shape[1] != features:
        raise InputError(f"sweep: train has {features} features and test {test.shape[1]}, expected the same")
    counts, chosen = _counts(keep, features), _chosen(selectors, train, views, seed)
    figures: dict[bytes, tuple[float, float, float]] = {}
    points = []
    with progress_bar(progress) as bar:
        task = bar.add_task("selecting", total=len(chosen) * len(counts) + 1)
        for name, selector in {**chosen, ALL: None}.items():
            scores = np.zeros(features) if selector is None else fitted(selector, train, views).scores_
            for count in [features] if selector is None else counts:
                columns = strongest(scores, count)
                if columns.tobytes() not in figures:  # selectors often agree
                    figures[columns.tobytes()] = _figures(_part(train, columns), _part(test, columns), seed)
                points.append(Point(name, count, *figures[columns.tobytes()]))
                bar.advance(task)
    points.sort(key=lambda point: point.keep)
    protocol = {"train_samples": len(train), "test_samples": len(test), "features": features, "seed": seed}
    return Sweep(tuple(points), protocol)


def _counts(keep: Sequence[int] | None, features: int) -> list[int]:
    """Ascending, without that of all features, which are measured anyway."""
    counts = [features // share for share in (16, 8, 4, 2)] if keep is None else list(keep)
    for count in counts if keep is not None else ():
        require_count(count, features, "sweep: keep has")
    return sorted({int(count) for count in counts if 1 <= count < features})


def _chosen(
    selectors: Sequence[str] | Mapping[str, Any] | None, train: Features, views: Features | None, seed: int
) -> dict[str, Any]:
    """Name to selector; how many it is to keep does not change its scores, so one will do."""
    if isinstance(selectors, Mapping):
        return {name: clone(selector).set_params(n_features_to_select=1) for name, selector in selectors.items()}
    names = list(SELECTORS) if selectors is None else list(dict.fromkeys(selectors))
    if selectors is None:
        values = train.codes.data if train.is_sparse else train.codes
        left_out = {"absolute-activation", "unrectified-activation"} if values.min(initial=0) >= 0 else set()
        left_out |= {"sepin"} if views is None else set()
        names = [name for name in names if name not in left_out]
    return {name: named_selector(name, 1, seed) for name in names}


def _part(features: Features, columns: Array) -> Features:
    """Without the samples' ids, images and texts, which no figure needs."""
    return Features(features.codes[:, columns], labels=features.labels, label_names=features.label_names)


def _figures(train: Features, test: Features, seed: int) -> tuple[float, float, float]:
    """Probe, precision and bytes a sample."""
    probe = linear_probe(train, test, seed).accuracy
    labels = np.asarray(test.labels)
    codes = test.codes[labels >= 0]
    neighbours = min(_NEIGHBOURS, codes.shape[0] - 1)
    precision = float("nan")
    if neighbours:
        precision = metrics.precision_at_k(on_fastest_device(codes), labels[labels >= 0], neighbours)
    return probe, precision, metrics.stored_bytes(test.codes)
