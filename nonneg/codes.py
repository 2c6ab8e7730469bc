"""Lengths, unit rows and active entries of codes, for NumPy, SciPy and torch.

Where gradients are needed, as in `losses`, rows are scaled by functions of their own.

This module does not import torch, so that opening features stays fast: anything that is neither NumPy nor SciPy is
treated as a tensor.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

EPSILON = 1e-5
"""An entry is active if its absolute value exceeds this share of its row's length."""


def row_lengths(codes: Any) -> npt.NDArray[np.float64]:
    """Return the Euclidean lengths `(samples,)` of rows of a NumPy or SciPy matrix `(samples, features)` in float64.

    Example:
        >>> row_lengths(np.array([[3.0, 4.0], [0.0, 0.0]]))
        array([5., 0.])
    """
    if sp.issparse(codes):
        csr = sp.csr_array(codes)
        squares = csr.data.astype(np.float64) ** 2
        return np.sqrt(np.bincount(_entry_rows(csr), squares, minlength=csr.shape[0]))
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", codes, codes, dtype=np.float64)))


def unit_rows(codes: Any) -> Any:
    """Scale rows to length 1; rows of zeros stay zero. Returns a matrix of the same kind.

    Example:
        >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
        [[0.6, 0.8], [0.0, 0.0]]
    """
    if sp.issparse(codes):
        csr = sp.csr_array(codes)
        units = csr.data / _nonzero(row_lengths(csr))[_entry_rows(csr)]
        return sp.csr_array((units, csr.indices, csr.indptr), shape=csr.shape)
    if isinstance(codes, np.ndarray):
        return codes / _nonzero(row_lengths(codes))[:, None]
    # Scale by the largest entry first: in float32, squares of large entries would overflow.
    peak = codes.abs().amax(dim=1, keepdim=True)
    scaled = codes / peak.masked_fill(peak == 0, 1)
    length = scaled.square().sum(dim=1, keepdim=True).sqrt()
    return scaled / length.masked_fill(length == 0, 1)


def active(codes: Any) -> Any:
    """Return which entries are active, as a Boolean matrix of the same kind (a `csr_array` for sparse matrices).

    Example:
        >>> active(np.array([[3.0, 1e-6], [0.0, -2.0]])).tolist()
        [[True, False], [False, True]]
    """
    if sp.issparse(codes):
        csr = sp.csr_array(codes)
        is_active = np.abs(csr.data) > EPSILON * row_lengths(csr)[_entry_rows(csr)]
        found = sp.csr_array((is_active, csr.indices, csr.indptr), shape=csr.shape)
        if not is_active.all():
            found = found.copy()
            found.eliminate_zeros()
        return found
    if isinstance(codes, np.ndarray):
        return np.abs(codes) > EPSILON * row_lengths(codes)[:, None]
    return unit_rows(codes).abs() > EPSILON


def active_units(codes: Any) -> sp.csr_array:
    """Return unit rows in float64 without inactive entries: every stored entry is active.

    Example:
        >>> active_units(np.array([[3.0, 4.0, 1e-9]])).toarray()
        array([[0.6, 0.8, 0. ]])
    """
    units = unit_rows(sp.csr_array(codes).astype(np.float64))
    is_active = np.abs(units.data) > EPSILON
    if not is_active.all():
        units = sp.csr_array((np.where(is_active, units.data, 0.0), units.indices, units.indptr), shape=units.shape)
        units = units.copy()
        units.eliminate_zeros()
    return units


def dense(codes: Any) -> Any:
    """Return a SciPy matrix as an array, and anything else as it is."""
    return codes.toarray() if sp.issparse(codes) else codes


def canonical(codes: Any, zeros: bool = True) -> Any:
    """Return a CSR matrix with sorted entries, none of them repeated: the same one, or a copy if it must change.

    Without `zeros`, stored zeros are removed, too.
    """
    if codes.has_canonical_format and (zeros or codes.data.all()):
        return codes
    codes = codes.copy()
    codes.sum_duplicates()
    if not zeros:
        codes.eliminate_zeros()
    return codes


def _entry_rows(csr: sp.csr_array) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))


def _nonzero(lengths: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(lengths == 0, 1.0, lengths)
