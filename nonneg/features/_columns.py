"""The columns of codes: how strong they are, and which of them are chosen."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.codes import row_lengths
from nonneg.payload import Array

_BLOCK = 16_384  # rows of a memory map that are read at a time


def activity(codes: Any) -> tuple[Array, Array]:
    """Return `(samples,)` lengths and `(features,)` expected activation in float64, computed in blocks of rows."""
    samples, features = codes.shape
    lengths, expected = np.zeros(samples), np.zeros(features)
    for start in range(0, samples, _BLOCK):
        block = codes[start : start + _BLOCK].astype(np.float64)
        lengths[start : start + _BLOCK] = length = row_lengths(block)
        # The sum of unit rows, as one product: faster than scaling every row.
        expected += block.T @ np.divide(1, length, out=np.zeros_like(length), where=length > 0)
    return lengths, expected / samples


def select_columns(codes: Any, chosen: Array) -> Any:
    """Return these columns of a matrix; -1 stands for a column of zeros."""
    if (chosen < 0).any():
        # Add an empty column at the end for -1.
        empty = np.zeros((codes.shape[0], 1), codes.dtype)
        codes = sp.hstack((codes, sp.csr_array(empty)), "csr") if sp.issparse(codes) else np.hstack((codes, empty))
        chosen = np.where(chosen < 0, codes.shape[1] - 1, chosen)
    return codes[:, chosen]


def moved(values: Mapping[int, Any], chosen: Array) -> dict[int, Any]:
    """Return values by feature, for the chosen features in their new order."""
    return {i: values[int(old)] for i, old in enumerate(chosen) if int(old) in values}
