"""Codes as an index takes them: sparse, non-negative, finite."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.compiled import Lists
from nonneg.errors import InputError


def checked_codes(codes: Any, features: int, name: str = "codes") -> sp.csr_array:
    """`(rows, features)` in ascending order of features without zeros; one row may be given as `(features,)`."""
    if not sp.issparse(codes):
        codes = np.asarray(codes)
        codes = codes[None] if codes.ndim == 1 else codes
    if codes.ndim != 2 or codes.shape[1] != features:
        raise InputError(f"{name} have shape {codes.shape}, expected (rows, {features}), as many features as indexed")
    if codes.dtype.kind not in "fiu":
        raise InputError(f"{name} have dtype {codes.dtype}, expected numbers")
    csr = sp.csr_array(codes)
    values = csr.data
    if not (values >= 0).all() or not np.isfinite(values).all():
        raise InputError(f"{name} hold negative, NaN or infinite values, expected non-negative finite ones")
    if not csr.has_canonical_format or not values.all():
        csr = csr.copy()
        csr.sum_duplicates()
        csr.eliminate_zeros()
    return csr


def query_lists(codes: Any, features: int) -> Lists:
    """Queries as lists of features and values in float64."""
    csr = checked_codes(codes, features, "queries")
    return Lists(csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data.astype(np.float64))


def unit_rows(codes: sp.csr_array) -> sp.csr_array:
    """Rows brought to length 1; empty ones stay empty."""
    lengths = np.sqrt(np.asarray(codes.multiply(codes).sum(axis=1, dtype=np.float64)).ravel())
    scale = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    scaled = codes.data * np.repeat(scale, np.diff(codes.indptr))
    return sp.csr_array((scaled, codes.indices, codes.indptr), shape=codes.shape)


def stored_codes(codes: Any, features: int, cosine: bool) -> sp.csr_array:
    """What goes into an index: float32, of length 1 if `cosine` says so."""
    csr = checked_codes(codes, features)
    csr = unit_rows(csr.astype(np.float64)) if cosine else csr
    with np.errstate(over="ignore"):  # said below
        stored = csr.astype(np.float32, copy=False)
    if stored.nnz and not np.isfinite(stored.data).all():
        raise InputError("codes hold values that float32 cannot, expected smaller ones")
    if not stored.data.all():  # what float32 rounds to nothing
        stored.eliminate_zeros()
    return stored
