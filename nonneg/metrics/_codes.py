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
    """Where a code matrix is active, as coordinate lists, rows ascending."""

    rows: Tensor
    columns: Tensor
    shape: tuple[int, int]


def as_dense(z: Any, metric: str) -> Tensor:
    """`(samples, features)` finite tensor in float32 or better, of a torch, NumPy or SciPy sparse matrix."""
    _check(z, metric)
    if sp.issparse(z):
        z = z.toarray()
    if isinstance(z, np.ndarray):
        # torch takes neither read-only memory (a map) nor negative strides, so those are copied.
        z = torch.from_numpy(z if z.flags.writeable and z.flags.c_contiguous else z.copy())
    # Sums over thousands of samples are taken in at least float32.
    dense: Tensor = z.detach().to(torch.promote_types(z.dtype, torch.float32))
    _refuse_non_finite(dense, metric)
    return dense


def unit_rows(z: Tensor) -> Tensor:
    """Rows of length 1; an empty row stays empty. Scaled by its peak first: squares of large entries overflow."""
    peak = z.abs().amax(dim=1, keepdim=True)
    scaled = z / peak.masked_fill(peak == 0, 1)
    length = scaled.square().sum(dim=1, keepdim=True).sqrt()
    return scaled / length.masked_fill(length == 0, 1)


def unit_columns(z: Tensor) -> Tensor:
    """Columns of length 1; a dead column stays zero."""
    return unit_rows(z.T).T if z.numel() else z


def active_entries(z: Any, metric: str) -> Entries:
    """Entries above the threshold in absolute value, rows L2-normalised first."""
    if sp.issparse(z):
        _check(z, metric)
        csr = sp.csr_array(z)
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        rows = torch.from_numpy(np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr)))
        columns = torch.from_numpy(csr.indices.astype(np.int64))
        # In float64, where squares of float32 numbers neither overflow nor vanish.
        values = torch.from_numpy(csr.data.astype(np.float64))
        _refuse_non_finite(values, metric)
        squares = torch.zeros(csr.shape[0], dtype=values.dtype).index_add_(0, rows, values.square())
        kept = values.abs() > EPSILON * squares.sqrt()[rows]
        return Entries(rows[kept], columns[kept], csr.shape)
    dense = unit_rows(as_dense(z, metric))
    rows, columns = (dense.abs() > EPSILON).nonzero(as_tuple=True)
    return Entries(rows, columns, (dense.shape[0], dense.shape[1]))


def _check(z: Any, metric: str) -> None:
    known = isinstance(z, Tensor | np.ndarray) or sp.issparse(z)
    if not known or not (z.is_floating_point() if isinstance(z, Tensor) else z.dtype.kind == "f"):
        found = z.dtype if known else type(z).__name__
        raise TypeError(f"{metric}: z is {found}, expected a floating torch, NumPy or SciPy sparse matrix")
    if z.ndim != 2 or 0 in z.shape:
        raise ValueError(f"{metric}: z has shape {tuple(z.shape)}, expected (samples, features), neither of them 0")


def _refuse_non_finite(values: Tensor, metric: str) -> None:
    if not bool(values.isfinite().all()):
        raise ValueError(f"{metric}: z holds NaN or infinite values, expected finite ones")


def as_labels(labels: Any, samples: int, metric: str) -> Tensor:
    """`(samples,)` integers renumbered 0..classes-1."""
    if labels is None:
        raise TypeError(f"{metric}: labels are missing; it needs one integer label a sample")
    if not isinstance(labels, Tensor):
        labels = np.array(labels)
        if labels.dtype.kind not in "iub":
            raise ValueError(f"{metric}: labels are {labels.dtype}, expected {samples} integers")
        labels = torch.from_numpy(labels)
    if labels.is_floating_point() or labels.shape != (samples,):
        raise ValueError(
            f"{metric}: labels are {labels.dtype} of shape {tuple(labels.shape)}, expected {samples} integers"
        )
    inverse: Tensor = torch.unique(labels, return_inverse=True)[1]
    return inverse
