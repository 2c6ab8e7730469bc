"""Where features are active, as ones."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.metrics import EPSILON


def active_ones(codes: Any) -> sp.csr_array:
    """Ones where a feature is above 1e-5 of its row's length, which is what the metrics call active.

    Example:
        >>> active_ones(np.array([[3.0, 1e-6], [0.0, -2.0]])).toarray()
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    matrix = sp.csr_array(codes).astype(np.float64)  # squares of large values overflow in less
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    least = np.repeat(EPSILON * lengths, np.diff(matrix.indptr))
    ones = sp.csr_array(((np.abs(matrix.data) > least).astype(np.float32), matrix.indices, matrix.indptr), matrix.shape)
    ones.eliminate_zeros()
    return ones
