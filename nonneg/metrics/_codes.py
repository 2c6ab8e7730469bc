"""One view of the kinds of input a metric takes: torch, NumPy or SciPy sparse, on any device."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.codes import EPSILON

_DENSE = 0.1
_NON_FINITE = "{}: z holds NaN or infinite values, expected finite ones"


@dataclass(frozen=True)
class Entries:
    """Where a code matrix is active, as coordinate lists, rows ascending."""

    rows: Tensor
    columns: Tensor
    shape: tuple[int, int]


def as_dense(z: Any, metric: str) -> Tensor:
    """`(samples, features)` finite tensor in float32 or better, of a torch, NumPy or SciPy sparse matrix."""
    check(z, metric)
    if sp.issparse(z):
        z = z.toarray()
    if isinstance(z, np.ndarray):
        # torch takes neither read-only memory (a map), nor negative strides, nor foreign types: those are copied.
        z = z.astype(np.float64 if z.dtype.char == "g" else z.dtype.newbyteorder("="), copy=False)
        z = torch.from_numpy(z if z.flags.writeable and z.flags.c_contiguous else z.copy())
    # Sums over thousands of samples are taken in at least float32.
    z = z.detach().cpu() if z.device.type == "mps" else z.detach()  # which has no float64
    dense: Tensor = z.to(torch.promote_types(z.dtype, torch.float32))
    if not bool(dense.isfinite().all()):
        raise ValueError(_NON_FINITE.format(metric))
    return dense


def as_csr(z: Any, metric: str) -> sp.csr_array:
    """`(samples, features)` in float64, each entry once, features ascending; of any input on the CPU."""
    csr = canonical_csr(z, metric)
    # Types of one kind: kernels are compiled once.
    parts = csr.data.astype(np.float64), csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return sp.csr_array(parts, shape=csr.shape)


def canonical_csr(z: Any, metric: str) -> sp.csr_array:
    """`as_csr` in the input's own types, and where it can be without a copy: not to be written to."""
    check(z, metric)
    csr = sp.csr_array(z if sp.issparse(z) else as_dense(z, metric).numpy())
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    if not np.isfinite(csr.data).all():
        raise ValueError(_NON_FINITE.format(metric))
    return csr


def for_products(z: Any, metric: str) -> Any:
    """CSR where `z` is sparse or, on the CPU, zero nearly everywhere: products are faster then; else as given."""
    check(z, metric)
    if sp.issparse(z) or on_gpu(z):
        return z
    dense = as_dense(z, metric)
    return canonical_csr(dense, metric) if int(dense.count_nonzero()) < _DENSE * dense.numel() else dense


def row_lengths(csr: sp.csr_array) -> Any:
    """`(samples,)` Euclidean lengths: in float64, where squares of float32 numbers neither overflow nor vanish."""
    return np.sqrt(np.bincount(row_numbers(csr), weights=csr.data**2, minlength=csr.shape[0]))


def row_numbers(csr: sp.csr_array) -> Any:
    """`(entries,)`: the row of each stored entry."""
    return np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))


def unit_csr(z: Any, metric: str) -> sp.csr_array:
    """`as_csr` with rows of length 1; an empty row stays empty."""
    csr = as_csr(z, metric)
    lengths = row_lengths(csr)
    lengths[lengths == 0] = 1
    csr.data /= np.repeat(lengths, np.diff(csr.indptr))
    return csr


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
        csr = as_csr(z, metric)
        rows, columns = row_numbers(csr), csr.indices
        kept = np.abs(csr.data) > np.repeat(EPSILON * row_lengths(csr), np.diff(csr.indptr))
        if not kept.all():
            rows, columns = rows[kept], columns[kept]
        return Entries(torch.from_numpy(rows), torch.from_numpy(columns), csr.shape)
    dense = unit_rows(as_dense(z, metric))
    rows, columns = (dense.abs() > EPSILON).nonzero(as_tuple=True)
    return Entries(rows, columns, (dense.shape[0], dense.shape[1]))


def on_gpu(z: Any) -> bool:
    """Whether `z` lives where only torch reaches it."""
    return isinstance(z, Tensor) and z.device.type != "cpu"


def check(z: Any, metric: str) -> None:
    """Refuse what is not a floating matrix with samples and features."""
    known = isinstance(z, Tensor | np.ndarray) or sp.issparse(z)
    if not known or not (z.is_floating_point() if isinstance(z, Tensor) else z.dtype.kind == "f"):
        found = z.dtype if known else type(z).__name__
        raise TypeError(f"{metric}: z is {found}, expected a floating torch, NumPy or SciPy sparse matrix")
    if z.ndim != 2 or 0 in z.shape:
        raise ValueError(f"{metric}: z has shape {tuple(z.shape)}, expected (samples, features), neither of them 0")
