"""Vectors that somebody gives, checked and parted into rows to fit on and rows to measure on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.preprocessing import normalize

from nonneg.errors import InputError
from nonneg.studies._peers import Array

_LEAST_ROWS = 50
_LEAST_PART = 10
_MOST_TRAIN, _MOST_TEST = 20_000, 5_000  # where the caller does not say: peers and recall@1 do not scale


@dataclass(frozen=True)
class Split:
    """Rows of length 1, `(rows, width)` each, and labels; None where they are not given."""

    train: Array
    test: Array
    train_pairs: Array | None
    test_pairs: Array | None
    train_labels: npt.NDArray[Any] | None
    test_labels: npt.NDArray[Any] | None


def split_rows(vectors: Any, pairs: Any, labels: Any, train_rows: int | None, test_rows: int | None) -> Split:
    """The same random split whatever the seeds; only the rows of the two parts are read."""
    x = _matrix(vectors, "vectors")
    if len(x) < _LEAST_ROWS:
        raise InputError(f"vectors has {len(x)} rows, expected at least {_LEAST_ROWS}")
    y = None if pairs is None else _matrix(pairs, "pairs")
    if y is not None and y.shape != x.shape:
        raise InputError(f"pairs has shape {y.shape}, expected that of vectors, {x.shape}")
    classes = None if labels is None else np.asarray(labels)
    if classes is not None and (classes.dtype.kind not in "iub" or classes.shape != (len(x),)):
        found = f"{classes.dtype} of shape {classes.shape}"
        raise InputError(f"labels is {found}, expected one integer for each of the {len(x)} rows of vectors")
    train, test = _parts(len(x), train_rows, test_rows)
    if classes is not None:
        classes = classes.astype(np.int64)
        for name, rows, least in (("train", train, 2), ("test", test, 1)):
            seen = len(np.unique(classes[rows][classes[rows] >= 0]))
            if seen < least:
                raise InputError(f"labels has {seen} classes on the {len(rows)} {name} rows, expected {least} or more")
    to_fit = _unit(x, train, "vectors")
    if (to_fit == to_fit[0]).all():
        raise InputError(f"vectors has the same direction on all {len(train)} train rows, expected different ones")
    return Split(
        train=to_fit,
        test=_unit(x, test, "vectors"),
        train_pairs=None if y is None else _unit(y, train, "pairs"),
        test_pairs=None if y is None else _unit(y, test, "pairs"),
        train_labels=None if classes is None else classes[train],
        test_labels=None if classes is None else classes[test],
    )


def _matrix(vectors: Any, name: str) -> npt.NDArray[Any]:
    matrix = np.asarray(vectors)
    if matrix.ndim != 2 or matrix.shape[1] == 0 or matrix.dtype.kind not in "fiub":
        raise InputError(f"{name} is {matrix.dtype} of shape {matrix.shape}, expected numbers, (rows, width)")
    return matrix


def _parts(total: int, train_rows: int | None, test_rows: int | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    for name, value in (("train_rows", train_rows), ("test_rows", test_rows)):
        most = total - _LEAST_PART
        if value is not None and not _LEAST_PART <= value <= most:
            raise InputError(f"{name} is {value}, expected {_LEAST_PART} to {most} of the {total} rows of vectors")
    if train_rows is None:
        train_rows = min(_MOST_TRAIN, total * 4 // 5 if test_rows is None else total - test_rows)
    if test_rows is None:
        test_rows = min(_MOST_TEST, total - train_rows)
    if train_rows + test_rows > total:
        both = f"train_rows and test_rows are {train_rows} and {test_rows}"
        raise InputError(f"{both}, expected no more than the {total} rows of vectors together")
    order = torch.randperm(total, generator=torch.Generator().manual_seed(0)).numpy()
    return order[:train_rows], order[train_rows : train_rows + test_rows]


def _unit(matrix: npt.NDArray[Any], rows: npt.NDArray[Any], name: str) -> Array:
    taken = matrix[rows].astype(np.float32)
    if not np.isfinite(taken).all():
        raise InputError(f"{name} holds NaN or infinite numbers, expected finite ones")
    unit: Array = normalize(taken)
    return unit
