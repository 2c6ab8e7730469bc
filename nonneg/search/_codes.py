"""Codes in the form that they are ranked in: sparse, float32, inactive entries removed."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.codes import active, active_units, canonical
from nonneg.compiled import Lists
from nonneg.errors import InputError

_BLOCK = 65_536  # rows of a memory map that are read together


def checked_codes(codes: Any, features: int, name: str = "codes") -> sp.csr_array:
    """Non-negative finite codes `(rows, features)`, sorted and without zeros; one row may come as `(features,)`."""
    if not sp.issparse(codes):
        codes = np.atleast_2d(np.asarray(codes))
    if codes.ndim != 2 or codes.shape[1] != features:
        raise InputError(f"{name} have shape {codes.shape}, expected (rows, {features}), one column per feature")
    if codes.dtype.kind not in "fiu":
        raise InputError(f"{name} have dtype {codes.dtype}, expected numbers")
    csr = sp.csr_array(codes)
    values = csr.data
    if not (values >= 0).all() or not np.isfinite(values).all():
        raise InputError(f"{name} hold negative, NaN or infinite values, expected non-negative finite values")
    return canonical(csr, zeros=False)


def query_lists(codes: Any, features: int) -> Lists:
    """Queries as lists of features and values in float64."""
    csr = checked_codes(codes, features, "queries")
    return Lists(csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data.astype(np.float64))


def ranked_codes(codes: Any, cosine: bool) -> sp.csr_array:
    """Codes as every ranking sees them: float32, only active entries, rows of length 1 if `cosine` is true."""
    csr = sp.csr_array(codes)
    if cosine:
        return active_units(csr).astype(np.float32)
    is_active = active(csr)
    if is_active.nnz < csr.nnz:
        csr = sp.csr_array(csr.multiply(is_active))
    with np.errstate(over="ignore"):  # reported below
        stored = csr.astype(np.float32, copy=False)
    if not np.isfinite(stored.data).all():
        raise InputError("codes hold values beyond the range of float32, expected smaller values")
    if not stored.data.all():  # values that float32 rounds to zero
        stored = stored.copy()
        stored.eliminate_zeros()
    return stored


def stored_codes(codes: Any, features: int, cosine: bool) -> sp.csr_array:
    """Checked codes in the form that an index stores."""
    csr = checked_codes(codes, features)
    starts = range(0, max(csr.shape[0], 1), _BLOCK)
    values = np.concatenate([ranked_codes(csr[start : start + _BLOCK], cosine).data for start in starts])
    if len(values) == csr.nnz:  # no entry was removed, so the indices can be shared
        return sp.csr_array((values, csr.indices, csr.indptr), shape=csr.shape)
    return sp.csr_array(sp.vstack([ranked_codes(csr[start : start + _BLOCK], cosine) for start in starts], "csr"))
