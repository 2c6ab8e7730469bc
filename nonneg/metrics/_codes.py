"""One view of the kinds of input a metric takes: torch, NumPy or SciPy sparse, on any device."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

EPSILON = 1e-5


@dataclass(frozen=True)
class Entries:
    """The non-zero entries of a code matrix as coordinate lists, rows ascending."""

    rows: Tensor
    columns: Tensor
    values: Tensor
    shape: tuple[int, int]


def as_dense(z: Any, metric: str) -> Tensor:
    """`(samples, features)` floating tensor; NumPy and SciPy input is taken over, integers refused."""
    if sp.issparse(z):
        z = z.toarray()
    if isinstance(z, np.ndarray):
        # torch will not take read-only memory (a map), so that is copied.
        z = torch.from_numpy(z if z.flags.writeable else z.copy())
    if not isinstance(z, Tensor) or not z.is_floating_point():
        found = z.dtype if hasattr(z, "dtype") else type(z).__name__
        raise TypeError(f"{metric}: z is {found}, expected a floating torch, NumPy or SciPy sparse matrix")
    if z.dim() != 2 or 0 in z.shape:
        raise ValueError(f"{metric}: z has shape {tuple(z.shape)}, expected (samples, features), neither of them 0")
    # Sums over thousands of samples are taken in at least float32.
    return z.detach().to(torch.promote_types(z.dtype, torch.float32))


def unit_rows(z: Tensor) -> Tensor:
    """Rows of length 1; an empty row stays empty."""
    length: Tensor = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    return z / length.masked_fill(length == 0, 1)


def unit_columns(z: Tensor) -> Tensor:
    """Columns of length 1; a dead column stays zero."""
    return unit_rows(z.T).T


def active_entries(z: Any, metric: str) -> Entries:
    """Entries above the threshold in absolute value, rows L2-normalised first."""
    if sp.issparse(z):
        csr = sp.csr_array(z)
        rows = torch.from_numpy(np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr)))
        values = torch.from_numpy(np.array(csr.data, dtype=np.result_type(csr.dtype, np.float32)))
        columns = torch.from_numpy(csr.indices.astype(np.int64))
        squares = torch.zeros(csr.shape[0], dtype=values.dtype).index_add_(0, rows, values.square())
        values = values / squares.sqrt()[rows]
        kept = values.abs() > EPSILON
        return Entries(rows[kept], columns[kept], values[kept], csr.shape)
    dense = unit_rows(as_dense(z, metric))
    rows, columns = (dense.abs() > EPSILON).nonzero(as_tuple=True)
    return Entries(rows, columns, dense[rows, columns], (dense.shape[0], dense.shape[1]))


def as_labels(labels: Any, samples: int, metric: str) -> Tensor:
    """`(samples,)` integers renumbered 0..classes-1."""
    if labels is None:
        raise TypeError(f"{metric}: labels are missing; it needs one integer label a sample")
    if not isinstance(labels, Tensor):
        labels = torch.from_numpy(np.array(labels))
    if labels.is_floating_point() or labels.shape != (samples,):
        raise ValueError(
            f"{metric}: labels are {labels.dtype} of shape {tuple(labels.shape)}, expected {samples} integers"
        )
    inverse: Tensor = torch.unique(labels, return_inverse=True)[1]
    return inverse
