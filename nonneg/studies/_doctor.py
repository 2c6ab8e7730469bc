"""The doctor: what a set of features is worth, in plain words, and whether non-negativity would help it."""

import dataclasses
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from nonneg import metrics
from nonneg.codes import unit_rows as unit
from nonneg.convert import NonNegativeEmbedding, have_one_direction, neighbours_kept
from nonneg.errors import InputError
from nonneg.studies._diagnosis import Conversion, Diagnosis, Finding, Reading
from nonneg.studies._doctor_words import axes_of, findings_on, margin_of, outcome_of, verdict_on

Array = npt.NDArray[Any]

_LEAST_ROWS, _FEW_ROWS = 100, 1_000
_SEEN, _HELD_OUT, _FITTED = 5_000, 5_000, 20_000  # rows, at most
_ENTRIES = 20_000_000  # of a dense matrix that is looked at as a whole
_AXES = 1_024  # rotated ones that are looked at, at most
_NARROW = 256  # features: where there are fewer, several rotations are looked at
_STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)  # inverse regularisation of the probe

_DENSE = 0.5  # of the rows: a feature that is active on more of them is dense
_SPARSE = 2 / 3  # of the entries off and none negative: the features are judged as they are
_STRONGEST = 0.05  # of the rows


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
        vectors: `(rows, features)`: an array, a memory map or SciPy sparse.
        labels: `(rows,)` integers or strings; negative integers are unlabelled.
        name: what the vectors are called.
        n_components: features of the non-negative version; four times the width, but 64 to 1,024, if left out.
        max_active: how many of them may be active on a row; None for no limit.
        max_iter: steps of its fit.
        seed: of the rows that are drawn, the rotation and the fit.
        progress: show what is being done.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> found = diagnose(X, y, n_components=64, max_active=8, max_iter=20, progress=False)
        >>> found.axes, round(found.given.sparsity, 2), round(found.rotated.sparsity, 2)
        ('sparse', 0.49, 0.0)
    """
    for argument, value in (("n_components", n_components), ("max_active", max_active), ("max_iter", max_iter)):
        is_left_out = value is None and argument != "max_iter"
        if not is_left_out and not (isinstance(value, int | np.integer) and value >= 1):
            raise InputError(f"{argument} is {value!r}, expected a whole number, at least 1")
    x = _checked_vectors(vectors, name)
    rows, features = x.shape
    y, notes = _checked_labels(labels, rows, name)
    rng = np.random.default_rng(seed)
    waiting = Console(stderr=True, quiet=not progress)
    with waiting.status(f"counting over {rows:,} rows"):
        counts, empty, negative = _counted(x, name)
    drawn = rng.choice(rows, min(rows, _HELD_OUT + _FITTED), replace=False)
    at_once = min(_SEEN, max(_FEW_ROWS, _ENTRIES // features))
    seen = drawn[: _SEEN if sp.issparse(x) else at_once]
    z, seen_y = _float32(x[seen]), None if y is None else y[seen]
    with waiting.status(f"looking at {len(seen):,} rows"):
        whole = _dense(z[:at_once])
        units = unit(torch.from_numpy(whole))
        if have_one_direction(units, units[0]):
            raise InputError(f"{name} has rows that all point in one direction, expected rows that differ")
        rank, correlation = metrics.effective_rank(whole), metrics.correlation(_some_columns(whole))
        given, rotated = _reading(z, seen_y), _reading(_rotated(z, rng), seen_y)
    active = float(counts.sum() / rows)
    conversion = None
    if negative or 1 - active / features < _SPARSE:
        held_out, fitted = np.split(drawn, [min(_HELD_OUT, len(drawn) // 4)])
        fitted = fitted[: max(_FEW_ROWS, 10 * _ENTRIES // features)]
        width = n_components or min(1024, max(64, 4 * features), len(fitted))
        embedding = NonNegativeEmbedding(width, max_active, max_iter=max_iter, random_state=seed, verbose=progress)
        embedding.fit(_dense(_float32(x[fitted])))
        with waiting.status("comparing before and after"):
            conversion = _compared(embedding, x, y, fitted, held_out)
    figures = Diagnosis(
        name=name,
        rows=rows,
        features=features,
        rows_seen=len(seen),
        classes=0 if y is None else int(y.max()) + 1,
        negative=negative / (rows * features),
        dead=int((counts == 0).sum()),
        dense=int((counts > _DENSE * rows).sum()),
        empty=empty,
        active=active,
        effective_rank=rank,
        rank_limit=min(int((counts > 0).sum()), len(whole)),
        correlation=correlation,
        given=given,
        rotated=rotated,
        axes=axes_of(given, rotated, margin_of(len(seen))),
        conversion=conversion,
        non_negativity=outcome_of(given, conversion),
    )
    return dataclasses.replace(figures, findings=(*notes, *findings_on(figures)), verdict=verdict_on(figures))


# What comes in


def _checked_vectors(vectors: Any, name: str) -> Any:
    x: Any = sp.csr_array(vectors) if sp.issparse(vectors) and vectors.ndim == 2 else np.asarray(vectors)
    if sp.issparse(x) and not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()
    if x.ndim != 2 or 0 in x.shape:
        raise InputError(f"{name} has shape {x.shape}, expected (rows, features)")
    if x.dtype.kind not in "fiub":
        raise InputError(f"{name} holds {x.dtype}, expected real numbers")
    if x.shape[0] < _LEAST_ROWS:
        raise InputError(f"{name} has {x.shape[0]} rows, expected at least {_LEAST_ROWS}")
    return x


def _checked_labels(labels: Any, rows: int, name: str) -> tuple[Array | None, list[Finding]]:
    """Classes 0, 1, … of the rows, -1 for none, `(rows,)`; None where they are of no use, and then why."""
    if labels is None:
        return None, []
    given = np.asarray(labels)
    if given.shape != (rows,):
        raise InputError(f"labels has shape {given.shape}, expected ({rows},), one for each row of {name}")
    if given.dtype.kind not in "iubUSO":
        raise InputError(f"labels holds {given.dtype}, expected integers or strings")
    is_labelled = given >= 0 if given.dtype.kind == "i" else np.ones(rows, bool)
    names, numbers = np.unique(given[is_labelled].astype(str), return_inverse=True)
    if len(names) < 2 or len(numbers) < 5 * len(names):
        found = f"{len(names):,} {'class' if len(names) == 1 else 'classes'} on {len(numbers):,} rows"
        expected = "2 classes or more, of 5 rows or more on average"
        return None, [Finding("note", f"The labels name {found}, expected {expected}: they were left aside.")]
    y = np.full(rows, -1)
    y[is_labelled] = numbers
    missing = rows - len(numbers)
    without = f"{missing:,} of {rows:,} rows have no label: figures about classes are without them."
    return y, [Finding("note", without)] if missing else []


def _counted(x: Any, name: str) -> tuple[Array, int, int]:
    """On how many rows each feature is active; how many rows have none active; how many entries are negative."""
    rows, features = x.shape
    counts, empty, negative = np.zeros(features, np.int64), 0, 0
    broken: list[int] = []
    size = max(1, 4_000_000 // features)
    for start in range(0, rows, size):
        block = sp.coo_array(_float32(x[start : start + size]))
        values = block.data.astype(np.float64)
        broken += np.unique(block.row[~np.isfinite(values)] + start).tolist()
        squares = np.bincount(block.row, np.square(values), block.shape[0])
        threshold = metrics.EPSILON * np.sqrt(squares)[block.row]
        is_active = np.abs(values) > threshold
        counts += np.bincount(block.col[is_active], minlength=features)
        empty += block.shape[0] - len(np.unique(block.row[is_active]))
        negative += int((values < -threshold).sum())
    if broken:
        named = ", ".join(map(str, broken[:3])) + ", …" * (len(broken) > 3)
        raise InputError(
            f"{name} holds NaN, infinity or numbers too large for float32 in {len(broken):,} of {rows:,} rows"
            f" ({named}), expected finite numbers"
        )
    return counts, empty, negative


def _float32(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return x.astype(np.float32)


def _dense(z: Any) -> Array:
    return np.asarray(z.toarray() if sp.issparse(z) else z)


def _some_columns(z: Any) -> Array:
    """All columns, or 1,024 spread over those that are not empty; dense."""
    if z.shape[1] <= _AXES:
        return _dense(z)
    filled = np.unique(z.indices) if sp.issparse(z) else np.flatnonzero(z.any(0))
    return _dense(z[:, filled[np.linspace(0, len(filled) - 1, min(_AXES, len(filled))).astype(int)]])


# What is measured


def _reading(z: Any, labels: Array | None) -> Reading:
    """Of `(rows, features)`, dense or sparse."""
    part = _some_columns(z)
    deviation = part - part.mean(0, dtype=np.float64)
    variance = np.square(deviation).mean(0)
    varies = variance > 0
    peaks = np.square(np.square(deviation[:, varies])).mean(0) / np.square(variance[varies])
    reading = Reading(metrics.sparsity(z), float(np.median(peaks)) if varies.any() else 1.0)
    if labels is None or (labels >= 0).sum() < 10:
        return reading
    known = np.flatnonzero(labels >= 0)
    plain = metrics.class_consistency(z[known], labels[known])
    strongest = metrics.class_consistency(_strongest(part[known]), labels[known])
    if not plain.n_supported or not strongest.n_supported:
        return reading
    figures = {"consistency": plain.supported, "floor": plain.floor, "excess": plain.excess}
    return dataclasses.replace(reading, **figures, strongest_excess=strongest.excess)


def _strongest(z: Array) -> Any:
    """1 for the rows that a feature is largest on, as far as it is above 0 there; sparse, of the same shape."""
    count = max(10, int(_STRONGEST * len(z)))
    rows = np.argpartition(-z, count - 1, axis=0)[:count]
    is_positive = np.take_along_axis(z, rows, 0) > 0
    columns = np.broadcast_to(np.arange(z.shape[1]), rows.shape)
    chosen = rows[is_positive], columns[is_positive]
    return sp.csr_array((np.ones(len(chosen[0])), chosen), shape=z.shape)


def _rotated(z: Any, rng: np.random.Generator) -> Array:
    """Rows after a random rotation; of narrow ones after several, side by side; of wide ones some of the axes."""
    shape = z.shape[1], min(z.shape[1], _AXES)
    rotations = [np.linalg.qr(rng.standard_normal(shape))[0] for _ in range(-(-_NARROW // shape[0]))]
    return np.asarray(z @ np.hstack(rotations).astype(np.float32))


def _compared(embedding: NonNegativeEmbedding, x: Any, y: Array | None, fitted: Array, held_out: Array) -> Conversion:
    """The vectors and their codes, on the rows held out."""
    before = _dense(_float32(x[held_out]))
    after = embedding.transform(before)
    k = max(2, min(10, len(held_out) // 20))
    conversion = Conversion(
        fitted_rows=len(fitted),
        held_out_rows=len(held_out),
        features=after.shape[1],
        max_active=embedding.max_active,
        max_iter=embedding.max_iter,
        dead=embedding.report_.dead,
        reading=_reading(after, None if y is None else y[held_out]),
        neighbours=k,
        neighbours_kept=neighbours_kept(before, after, k=k),
        neighbours_by_chance=k / (len(held_out) - 1),
    )
    if y is None:
        return conversion
    fitted, is_known = fitted[y[fitted] >= 0], y[held_out] >= 0
    aside, rest = np.split(fitted, [len(fitted) // 5])
    if len(np.unique(y[rest])) < 2 or not len(aside) or not is_known.any():
        return conversion
    train = _dense(_float32(x[fitted]))
    truth = y[held_out][is_known]
    hits = [
        _predicted(some, y[fitted], len(aside), others[is_known]) == truth
        for some, others in ((train, before), (embedding.transform(train), after))
    ]
    difference = hits[1].astype(float) - hits[0]
    return dataclasses.replace(
        conversion,
        commonest=float(np.bincount(truth).max() / len(truth)),
        probe_before=float(hits[0].mean()),
        probe_after=float(hits[1].mean()),
        probe_difference=float(difference.mean()),
        probe_error=float(difference.std() / np.sqrt(len(difference))),
    )


def _predicted(train: Any, labels: Array, aside: int, test: Any) -> Array:
    """Classes by logistic regression on standardised features, as regularised as does best on the first rows."""
    # Centring would fill sparse codes, and changes nothing: the intercept takes it up.
    scaler = StandardScaler(with_mean=not sp.issparse(train))
    train, test = scaler.fit_transform(train), scaler.transform(test)

    def fitted(strength: float, start: int) -> LogisticRegression:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return LogisticRegression(C=strength, max_iter=300).fit(train[start:], labels[start:])

    scores = {strength: fitted(strength, aside).score(train[:aside], labels[:aside]) for strength in _STRENGTHS}
    return np.asarray(fitted(max(scores, key=scores.__getitem__), 0).predict(test))
