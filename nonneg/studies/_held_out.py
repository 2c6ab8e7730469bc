"""Vectors and labels as given, checked and split into rows to fit on and held-out rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nonneg.codes import unit_rows
from nonneg.convert import have_one_direction
from nonneg.errors import InputError
from nonneg.evaluate import Probe, linear_probe
from nonneg.features import Features
from nonneg.labels import label_numbers
from nonneg.messages import counted
from nonneg.studies._peers import Array

_MIN_ROWS = 50
_MIN_PART = 10
_MAX_TRAIN, _MAX_TEST = 20_000, 5_000  # defaults: the other methods and recall@1 do not scale beyond


@dataclass(frozen=True)
class Split:
    """Unit rows `(rows, width)` and labels `(rows,)` of both parts; None where there are no pairs or labels."""

    train: Array
    test: Array
    train_pairs: Array | None
    test_pairs: Array | None
    train_labels: npt.NDArray[Any] | None
    test_labels: npt.NDArray[Any] | None


def split_rows(vectors: Any, pairs: Any, labels: Any, train_rows: int | None, test_rows: int | None) -> Split:
    """Return a random split, the same on every call. Only the rows of the two parts are read."""
    x = _matrix(vectors, "vectors")
    if len(x) < _MIN_ROWS:
        raise InputError(f"vectors has {counted(len(x), 'row')}, expected at least {_MIN_ROWS}")
    y = None if pairs is None else _matrix(pairs, "pairs")
    if y is not None and y.shape != x.shape:
        raise InputError(f"pairs has shape {y.shape}, expected the shape of vectors, {x.shape}")
    if labels is not None and np.shape(labels) != (len(x),):
        raise InputError(f"labels has shape {np.shape(labels)}, expected one label for each of the {len(x)} rows")
    classes = None if labels is None else label_numbers(labels)[0]
    train, test = _parts(len(x), train_rows, test_rows)
    if classes is not None:
        for name, rows, least in (("train", train, 2), ("test", test, 1)):
            seen = len(np.unique(classes[rows][classes[rows] >= 0]))
            if seen < least:
                found = f"labels has {counted(seen, 'class', 'classes')} on the {len(rows)} {name} rows"
                raise InputError(f"{found}, expected {least} or more")
    to_fit = _unit_rows(x, train, "vectors")
    if have_one_direction(torch.from_numpy(to_fit)):
        raise InputError(f"vectors has the same direction on all {len(train)} train rows, expected different ones")
    return Split(
        train=to_fit,
        test=_unit_rows(x, test, "vectors"),
        train_pairs=None if y is None else _unit_rows(y, train, "pairs"),
        test_pairs=None if y is None else _unit_rows(y, test, "pairs"),
        train_labels=None if classes is None else classes[train],
        test_labels=None if classes is None else classes[test],
    )


def probe_held_out(train: Any, train_labels: Any, test: Any, test_labels: Any) -> Probe | None:
    """Return `linear_probe` fitted on some rows and evaluated on others, or None if too few rows are labelled.

    Args:
        train, test: `(rows, features)`, NumPy or SciPy sparse.
        train_labels, test_labels: `(rows,)` integers, -1 for unlabelled rows.
    """
    try:
        return linear_probe(Features(train, labels=train_labels), Features(test, labels=test_labels))
    except InputError:
        return None


def _matrix(vectors: Any, name: str) -> npt.NDArray[Any]:
    matrix = np.asarray(vectors)
    if matrix.ndim != 2 or matrix.shape[1] == 0 or matrix.dtype.kind not in "fiub":
        raise InputError(f"{name} is {matrix.dtype} of shape {matrix.shape}, expected numbers, (rows, width)")
    return matrix


def _parts(total: int, train_rows: int | None, test_rows: int | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    for name, value in (("train_rows", train_rows), ("test_rows", test_rows)):
        most = total - _MIN_PART
        if value is not None and not _MIN_PART <= value <= most:
            raise InputError(f"{name} is {value}, expected {_MIN_PART} to {most} of the {total} rows of vectors")
    if train_rows is None:
        train_rows = min(_MAX_TRAIN, total * 4 // 5 if test_rows is None else total - test_rows)
    if test_rows is None:
        test_rows = min(_MAX_TEST, total - train_rows)
    if train_rows + test_rows > total:
        both = f"train_rows is {train_rows} and test_rows is {test_rows}"
        raise InputError(f"{both}, expected a sum of at most {total}, the number of rows of vectors")
    order = torch.randperm(total, generator=torch.Generator().manual_seed(0)).numpy()
    return order[:train_rows], order[train_rows : train_rows + test_rows]


def _unit_rows(matrix: npt.NDArray[Any], rows: npt.NDArray[Any], name: str) -> Array:
    taken = matrix[rows].astype(np.float32)
    if not np.isfinite(taken).all():
        raise InputError(f"{name} holds NaN or infinite numbers, expected finite ones")
    return np.asarray(unit_rows(taken), dtype=np.float32)
