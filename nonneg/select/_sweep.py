"""A comparison of selectors: probe accuracy, retrieval and storage with fewer and fewer features."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from sklearn.base import clone

from nonneg import metrics
from nonneg.errors import InputError
from nonneg.evaluate import linear_probe, markdown_table, on_fastest_device, rich_table
from nonneg.features import Features
from nonneg.labels import is_labelled
from nonneg.progress import progress_bar
from nonneg.select._keep import SELECTORS, fitted, named_selector
from nonneg.select._scores import Array
from nonneg.select._selectors import require_count, strongest

ALL = "all features"
_NEIGHBOURS = 10
_HEADINGS = ("keep", "by", "probe", f"precision@{_NEIGHBOURS}", "bytes per sample")


@dataclass(frozen=True)
class Point:
    """One selection and its figures.

    Attributes:
        by: the name of the selector; "all features" if none are removed.
        keep: number of features kept.
        probe: accuracy of `linear_probe` on the test samples.
        precision: share of the 10 nearest test samples with the same label (fewer than 10 if there are fewer).
        bytes: per test sample: 8 per active feature if under half are active, else 4 per feature.
    """

    by: str
    keep: int
    probe: float
    precision: float
    bytes: float


@dataclass(frozen=True)
class Sweep:
    """The points of a sweep. It prints as a table with rich.

    Attributes:
        points: in order of `keep`, then of the selectors; all features last.
        protocol: numbers of samples and features, and the seed.
    """

    points: tuple[Point, ...]
    protocol: Mapping[str, Any]

    def markdown(self) -> str:
        """Return the table in Markdown, with the protocol below it."""
        return f"{markdown_table(_HEADINGS, self._cells(), left=(1,))}\n\n{self._setting()}\n"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"protocol": dict(self.protocol), "points": [asdict(point) for point in self.points]}

    def plot(self, path: str | Path) -> Path:
        """Plot probe accuracy, precision and bytes against the number of features, to a .png, .svg or .pdf file."""
        from nonneg.select._plot import plot

        return plot(self, Path(path))

    def __rich__(self) -> Table:
        return rich_table(_HEADINGS, self._cells(), left=(1,), caption=self._setting())

    def _cells(self) -> Iterator[list[str]]:
        before = None
        for point in self.points:
            number = f"{point.keep:,}" if point.keep != before else ""
            yield [number, point.by, f"{point.probe:.1%}", f"{point.precision:.1%}", f"{point.bytes:,.0f}"]
            before = point.keep

    def _setting(self) -> str:
        return (
            f"Selectors and probes fitted on {self.protocol['train_samples']:,} train samples and evaluated on"
            f" {self.protocol['test_samples']:,} test samples; seed {self.protocol['seed']}."
        )


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
    """Compare selectors: keep fewer features by each of them, and measure the rest.

    Selectors and probes are fitted on `train` only, and evaluated on `test`.

    Args:
        train, test: features with labels.
        keep: numbers of features to keep; if None, a sixteenth, an eighth, a quarter and a half of them. All features
            are always measured, too.
        selectors: names, as on the command line, or name to selector; if None, all that can be fitted. The three
            kinds of activation are equal if no feature is negative, and only one of them is used.
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
        raise InputError(f"sweep: train has {features} features and test {test.shape[1]}, expected the same number")
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
    """Return the numbers of features to keep in ascending order, without all features, which are always measured."""
    counts = [features // share for share in (16, 8, 4, 2)] if keep is None else list(keep)
    for count in counts if keep is not None else ():
        require_count(count, features, "sweep: keep has")
    return sorted({int(count) for count in counts if 1 <= count < features})


def _chosen(
    selectors: Sequence[str] | Mapping[str, Any] | None, train: Features, views: Features | None, seed: int
) -> dict[str, Any]:
    """Return name to selector. One feature to keep is enough, because the number does not change the scores."""
    if isinstance(selectors, Mapping):
        return {name: clone(selector).set_params(n_features_to_select=1) for name, selector in selectors.items()}
    names = list(SELECTORS) if selectors is None else list(dict.fromkeys(selectors))
    if selectors is None:
        values = train.codes.data if train.is_sparse else train.codes
        skipped = {"absolute-activation", "unrectified-activation"} if values.min(initial=0) >= 0 else set()
        skipped |= {"sepin"} if views is None else set()
        names = [name for name in names if name not in skipped]
    return {name: named_selector(name, 1, seed) for name in names}


def _part(features: Features, columns: Array) -> Features:
    """Return some columns, without ids, previews and texts, which no figure needs."""
    return Features(features.codes[:, columns], labels=features.labels, label_names=features.label_names)


def _figures(train: Features, test: Features, seed: int) -> tuple[float, float, float]:
    """Return probe accuracy, precision and bytes per sample."""
    probe = linear_probe(train, test, seed).accuracy
    labels = np.asarray(test.labels)
    known = is_labelled(labels)
    codes = test.codes[known]
    k = min(_NEIGHBOURS, codes.shape[0] - 1)
    precision = metrics.precision_at_k(on_fastest_device(codes), labels[known], k) if k else float("nan")
    return probe, precision, metrics.stored_bytes(test.codes)
