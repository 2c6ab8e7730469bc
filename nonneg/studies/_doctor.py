"""The doctor: what a set of features is worth, and whether non-negativity would help."""

import dataclasses
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from rich.console import Console

from nonneg import metrics
from nonneg.codes import active, canonical, dense, row_lengths, unit_rows
from nonneg.convert import NonNegativeEmbedding, checked_config, have_one_direction, neighbours_kept
from nonneg.errors import InputError
from nonneg.evaluate import open_features
from nonneg.features import Features
from nonneg.labels import label_numbers
from nonneg.messages import counted
from nonneg.models import load
from nonneg.runs import kind_of
from nonneg.studies._diagnosis import Conversion, Diagnosis, FeatureStatistics, Finding
from nonneg.studies._findings import classify_axes, classify_conversion, findings_for, margin_for, verdict_for
from nonneg.studies._held_out import probe_held_out
from nonneg.tables import open_vectors, read_column
from nonneg.training import load_recipe
from nonneg.trials import open_training_data, test_source

Array = npt.NDArray[Any]

_MIN_ROWS, _FEW_ROWS = 100, 1_000
_MAX_SEEN, _MAX_HELD_OUT, _MAX_FITTED = 5_000, 5_000, 20_000  # rows
_MAX_ENTRIES = 20_000_000  # of a dense matrix that is examined as a whole
_MAX_AXES = 1_024  # rotated axes that are examined
_MIN_AXES = 256  # with fewer features, several rotations are examined
_MAX_PROBE_WIDTH = 4_096  # the probe takes time cubic in the width
_DENSE = 0.5  # a feature that is active on more than this share of the rows is dense
_SPARSE = 2 / 3  # non-negative features with this share of inactive entries are not converted
_STRONGEST = 0.05  # share of a feature's rows that count as its strongest


def diagnose(
    vectors: Any,
    labels: Any = None,
    *,
    name: str = "vectors",
    n_components: int | None = None,
    max_active: int | None = 32,
    max_iter: int = 600,
    seed: int = 0,
    progress: bool = True,
) -> Diagnosis:
    """Say what an embedding's features are worth, and whether a non-negative version of them is worth having.

    Args:
        vectors: `(rows, features)`: an array, a memory map or a SciPy sparse matrix; or `Features`.
        labels: `(rows,)` whole numbers or strings; negative numbers, NaN, None and "" are unlabelled. By default those
            of the features.
        name: what to call the vectors in messages and tables.
        n_components: features of the non-negative version; by default four times the width, but 64 to 1,024.
        max_active: maximum number of them that are active per row; None for no limit.
        max_iter: number of training steps of the non-negative version.
        seed: seed of the drawn rows, the rotation and the fit.
        progress: show the current step on standard error.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> found = diagnose(X, y, n_components=64, max_active=8, max_iter=20, progress=False)
        >>> found.axes, round(found.given.sparsity, 2), round(found.rotated.sparsity, 2)
        ('sparse', 0.49, 0.0)
    """
    count = 64 if n_components is None else n_components
    embedding = NonNegativeEmbedding(count, max_active, max_iter=max_iter, random_state=seed, verbose=progress)
    checked_config(embedding.get_params())
    if isinstance(vectors, Features):
        vectors, labels = vectors.codes, vectors.labels if labels is None else labels
    x = _checked_vectors(vectors, name)
    rows, features = x.shape
    y, notes = _checked_labels(labels, rows, name)
    rng = np.random.default_rng(seed)
    console = Console(stderr=True, quiet=not progress)
    with console.status(f"counting active features over {rows:,} rows"):
        counts = _count(x, name)
    drawn = rng.choice(rows, min(rows, _MAX_HELD_OUT + _MAX_FITTED), replace=False)
    with console.status("examining single features"):
        examined = _examine(x, y, counts, drawn[:_MAX_SEEN], rng, name)
    conversion = None
    if counts.negative or 1 - counts.rows_active.sum() / (rows * features) < _SPARSE:
        conversion = _convert(embedding, n_components is None, x, y, drawn, console)
    diagnosis = Diagnosis(
        name=name,
        rows=rows,
        features=features,
        classes=0 if y is None else int(y.max()) + 1,
        conversion=conversion,
        non_negativity=classify_conversion(examined["given"], conversion),
        **examined,
    )
    findings = (*notes, *findings_for(diagnosis))
    return dataclasses.replace(diagnosis, findings=findings, verdict=verdict_for(diagnosis))


def examine(subject: str, labels: str | None = None, **settings: Any) -> Diagnosis:
    """Diagnose a file of vectors, a features folder, a run of `nonneg convert` or a trained run.

    For a trained run, the features of its test samples are diagnosed, or of all samples if its data has no splits.

    Args:
        subject: its path; `file.npz:name` for a file with several arrays.
        labels: a file with one label per row; by default the labels of the features or the run.
        **settings: as for `diagnose`.
    """
    vectors, known = _open(subject, labels), None
    if labels is not None:
        known = label_numbers(read_column(labels, vectors.shape[0], subject), labels)[0]
    return diagnose(vectors, known, name=Path(subject).name, **settings)


def _open(subject: str, labels: str | None) -> Any:
    """Return features, or the vectors of a file without a column of labels that it holds."""
    kind = kind_of(subject)
    if kind == "vectors":
        return open_vectors(subject, beside=(labels,))
    if kind == "trained run":
        model, config = load(subject), load_recipe(str(Path(subject) / "config.toml"))
        source = open_training_data(subject, None, config.data, lambda name: test_source(model, name))
        features = model.embed(source, media=False)
    else:
        features = open_features(subject)
    return features


# Checks


def _checked_vectors(vectors: Any, name: str) -> Any:
    if isinstance(vectors, str | PathLike):
        raise InputError(f"vectors is the path {vectors}, expected an array; to diagnose a file, use examine(path)")
    x: Any = canonical(sp.csr_array(vectors)) if sp.issparse(vectors) and vectors.ndim == 2 else np.asarray(vectors)
    if x.ndim != 2 or 0 in x.shape:
        raise InputError(f"{name} has shape {x.shape}, expected (rows, features)")
    if x.dtype.kind not in "fiub":
        raise InputError(f"{name} holds {x.dtype}, expected real numbers")
    if x.shape[0] < _MIN_ROWS:
        raise InputError(f"{name} has {counted(x.shape[0], 'row')}, expected at least {_MIN_ROWS}")
    return x


def _checked_labels(labels: Any, rows: int, name: str) -> tuple[Array | None, list[Finding]]:
    """Return class numbers `(rows,)`, -1 for unlabelled rows, or None for unusable labels; and notes about them."""
    if labels is None:
        return None, []
    if np.shape(labels) != (rows,):
        raise InputError(f"labels has shape {np.shape(labels)}, expected ({rows},), one for each row of {name}")
    y, names = label_numbers(labels, required=False)
    labelled = int((y >= 0).sum())
    if len(names) < 2 or labelled < 5 * len(names):
        found = f"{counted(len(names), 'class', 'classes')} on {counted(labelled, 'row')}"
        expected = "at least 2 classes with 5 rows each on average"
        return None, [Finding("note", f"The labels were ignored: they name {found}, expected {expected}.")]
    note = f"{rows - labelled:,} of {rows:,} rows have no label and are left out of all figures about classes."
    return y, [Finding("note", note)] if labelled < rows else []


class _Counts(NamedTuple):
    """Rows on which each feature is active `(features,)`, rows without an active feature, negative active entries."""

    rows_active: Array
    empty: int
    negative: int


def _count(x: Any, name: str) -> _Counts:
    rows, features = x.shape
    rows_active, empty, negative = np.zeros(features, np.int64), 0, 0
    broken: list[int] = []
    size = max(1, 4_000_000 // features)
    for start in range(0, rows, size):
        block = _float32(x[start : start + size])
        is_broken = ~np.isfinite(row_lengths(block))
        broken += (np.flatnonzero(is_broken) + start).tolist()
        if is_broken.any():
            continue
        is_active = active(block)
        rows_active += is_active.sum(0)
        empty += int((is_active.sum(1) == 0).sum())
        negative += int((block * is_active < 0).sum())
    if broken:
        examples = ", ".join(map(str, broken[:3])) + ", …" * (len(broken) > 3)
        raise InputError(
            f"{name} holds NaN, infinity or numbers too large for float32 in {len(broken):,} of {rows:,} rows"
            f" ({examples}), expected finite numbers"
        )
    return _Counts(rows_active, empty, negative)


def _float32(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return x.astype(np.float32)


# Figures


def _examine(
    x: Any, y: Array | None, counts: _Counts, drawn: Array, rng: np.random.Generator, name: str
) -> dict[str, Any]:
    """Return the figures of `Diagnosis` that come from the counts and from a sample of the rows."""
    at_once = min(_MAX_SEEN, max(_FEW_ROWS, _MAX_ENTRIES // x.shape[1]))
    drawn = drawn if sp.issparse(x) else drawn[:at_once]
    z, labels = _float32(x[drawn]), None if y is None else y[drawn]
    whole = dense(z[:at_once])
    if have_one_direction(torch.from_numpy(unit_rows(whole))):
        raise InputError(f"{name} has rows that all point in one direction, expected rows that differ")
    given, rotated = _statistics(z, labels), _statistics(_rotate(z, rng), labels)
    return {
        "negative": counts.negative / (x.shape[0] * x.shape[1]),
        "dead": int((counts.rows_active == 0).sum()),
        "dense": int((counts.rows_active > _DENSE * x.shape[0]).sum()),
        "empty": counts.empty,
        "active": float(counts.rows_active.sum() / x.shape[0]),
        "rows_seen": len(drawn),
        "effective_rank": metrics.effective_rank(whole),
        "rank_limit": min(int((counts.rows_active > 0).sum()), len(whole)),
        "correlation": metrics.correlation(_some_columns(whole)),
        "given": given,
        "rotated": rotated,
        "axes": classify_axes(given, rotated, margin_for(len(drawn))),
    }


def _some_columns(z: Any) -> Any:
    """Return all columns, or 1,024 evenly spaced ones among those that are not empty, as a dense matrix."""
    if z.shape[1] <= _MAX_AXES:
        return dense(z)
    filled = np.unique(z.indices) if sp.issparse(z) else np.flatnonzero(z.any(0))
    return dense(z[:, filled[np.linspace(0, len(filled) - 1, min(_MAX_AXES, len(filled))).astype(int)]])


def _statistics(z: Any, labels: Array | None) -> FeatureStatistics:
    part = _some_columns(z)
    deviation = part - part.mean(0, dtype=np.float64)
    variance = np.square(deviation).mean(0)
    varies = variance > 0
    kurtosis = np.square(np.square(deviation[:, varies])).mean(0) / np.square(variance[varies])
    statistics = FeatureStatistics(metrics.sparsity(z), float(np.median(kurtosis)) if varies.any() else 1.0)
    if labels is None or (labels >= 0).sum() < 10:
        return statistics
    known = np.flatnonzero(labels >= 0)
    plain = metrics.class_consistency(z[known], labels[known])
    strongest = metrics.class_consistency(_strongest(part[known]), labels[known])
    if not plain.n_supported or not strongest.n_supported:
        return statistics
    figures = {"consistency": plain.supported, "floor": plain.floor, "excess": plain.excess}
    return dataclasses.replace(statistics, **figures, strongest_excess=strongest.excess)


def _strongest(z: Array) -> Any:
    """Return 1 where a row is among the strongest positive ones of a feature, else 0; sparse, same shape."""
    count = max(10, int(_STRONGEST * len(z)))
    rows = np.argpartition(-z, count - 1, axis=0)[:count]
    is_positive = np.take_along_axis(z, rows, 0) > 0
    columns = np.broadcast_to(np.arange(z.shape[1]), rows.shape)
    chosen = rows[is_positive], columns[is_positive]
    return sp.csr_array((np.ones(len(chosen[0])), chosen), shape=z.shape)


def _rotate(z: Any, rng: np.random.Generator) -> Array:
    """Rotate rows at random: narrow ones several times, side by side; for wide ones only some of the axes."""
    shape = z.shape[1], min(z.shape[1], _MAX_AXES)
    rotations = [np.linalg.qr(rng.standard_normal(shape))[0] for _ in range(-(-_MIN_AXES // shape[0]))]
    return np.asarray(z @ np.hstack(rotations).astype(np.float32))


def _convert(
    embedding: NonNegativeEmbedding, choose_size: bool, x: Any, y: Array | None, drawn: Array, console: Console
) -> Conversion:
    """Fit the embedding, perhaps with a suitable `n_components`, on most drawn rows; compare on the others."""
    features = x.shape[1]
    held_out, fitted = np.split(drawn, [min(_MAX_HELD_OUT, len(drawn) // 4)])
    fitted = fitted[: max(_FEW_ROWS, 10 * _MAX_ENTRIES // features)]
    if choose_size:
        embedding.n_components = min(1024, max(64, 4 * features), len(fitted))
    given = dense(_float32(x[fitted]))
    embedding.fit(given[given.any(axis=1)])  # rows of zeros have no direction
    with console.status("comparing the vectors with their non-negative version"):
        return _compare(embedding, x, y, fitted, held_out)


def _compare(embedding: NonNegativeEmbedding, x: Any, y: Array | None, fitted: Array, held_out: Array) -> Conversion:
    """Compare the vectors with their codes on the held-out rows."""
    before = dense(_float32(x[held_out]))
    after = embedding.encode(before)
    k = max(2, min(10, len(held_out) // 20))
    conversion = Conversion(
        fitted_rows=len(fitted),
        held_out_rows=len(held_out),
        features=after.shape[1],
        max_active=embedding.max_active,
        max_iter=embedding.max_iter,
        dead=embedding.report_.dead,
        statistics=_statistics(after, None if y is None else y[held_out]),
        neighbours=k,
        neighbours_kept=neighbours_kept(before, after, k=k),
        neighbours_by_chance=k / (len(held_out) - 1),
        labelled_rows=0 if y is None else int((y[held_out] >= 0).sum()),
    )
    if y is None or max(before.shape[1], after.shape[1]) > _MAX_PROBE_WIDTH:
        return conversion
    train = dense(_float32(x[fitted]))
    probes = [
        probe_held_out(fit, y[fitted], test, y[held_out])
        for fit, test in ((train, before), (embedding.encode(train), after))
    ]
    if probes[0] is None or probes[1] is None:
        return conversion
    truth = y[held_out][y[held_out] >= 0]
    difference = probes[1].hits.astype(float) - probes[0].hits
    return dataclasses.replace(
        conversion,
        commonest=float(np.bincount(truth).max() / len(truth)),
        probe_before=probes[0].accuracy,
        probe_after=probes[1].accuracy,
        probe_difference=float(difference.mean()),
        probe_error=float(difference.std() / np.sqrt(len(difference))),
    )
