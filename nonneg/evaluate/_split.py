"""Dividing labelled rows into some to fit on and some to evaluate on."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import train_test_split

from nonneg.errors import InputError

Rows = npt.NDArray[np.int64]
_TEST_SHARE = 0.2


def split_rows(labels: Any, rows: Rows, seed: int = 0) -> tuple[Rows, Rows]:
    """Split rows into 80% for fitting and 20% for evaluation, stratified by label; each part is in ascending order.

    A class with a single row is only in the first part; every other class is in both.

    Args:
        labels: one label per sample; `rows` of them are used.
        rows: `(rows,)` the rows to split.
        seed: decides which rows go where.

    Example:
        >>> labels = np.array([0, 0, 0, 1, 1, 2])
        >>> fit, kept = split_rows(labels, np.arange(6))
        >>> labels[fit], labels[kept]
        (array([0, 0, 1, 2]), array([0, 1]))
    """
    classes, counts = np.unique(labels[rows], return_counts=True)
    if not (counts > 1).any():
        raise InputError(
            f"{len(rows)} labelled rows have {len(rows)} different labels, expected several rows per class"
        )
    single = np.isin(labels[rows], classes[counts == 1])
    several = rows[~single]
    size = max(math.ceil(_TEST_SHARE * len(several)), int((counts > 1).sum()))
    fit, kept = train_test_split(several, test_size=size, stratify=labels[several], random_state=seed)
    return np.sort(np.concatenate((fit, rows[single]))), np.sort(kept)
