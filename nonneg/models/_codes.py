"""Collecting blocks of codes in memory, sparse or dense, whichever is smaller."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp


class CodeRows:
    """Rows of codes, collected in order.

    Blocks and the final codes are stored in the smaller form, so memory stays about that of the final codes plus one
    block.

    Example:
        >>> rows = CodeRows(features=4)
        >>> rows.add(np.eye(4, dtype=np.float32))
        >>> rows.add(np.eye(4, dtype=np.float32)[:1])
        >>> codes = rows.finished()
        >>> type(codes).__name__, codes.shape, codes.nnz
        ('csr_array', (5, 4), 5)
    """

    def __init__(self, features: int) -> None:
        self.features = features
        self.samples = 0
        self.nonzero = 0
        self._blocks: list[Any] = []

    def add(self, block: Any) -> None:
        """Add the next rows: `(rows, features)` float32, an array (not copied) or a `csr_array`."""
        if sp.issparse(block):
            active = int(block.nnz)
        else:
            is_active = block != 0
            active = int(np.count_nonzero(is_active))
            block = _csr(block, is_active) if _is_sparse(active, block.size) else block
        self.samples += block.shape[0]
        self.nonzero += active
        self._blocks.append(block)

    def finished(self) -> Any:
        """Return all rows, `(samples, features)`: a `csr_array` if fewer than half are nonzero, else an array.

        Can be called only once, because it frees the blocks.
        """
        blocks, self._blocks = self._blocks[::-1], []
        if not _is_sparse(self.nonzero, self.samples * self.features):
            dense = np.empty((self.samples, self.features), np.float32)
            row = 0
            while blocks:
                block = blocks.pop()
                dense[row : row + block.shape[0]] = block.toarray() if sp.issparse(block) else block
                row += block.shape[0]
            return dense
        # SciPy requires the same type for both index arrays.
        index = np.int32 if max(self.nonzero, self.features) < 2**31 else np.int64
        data, indices = np.empty(self.nonzero, np.float32), np.empty(self.nonzero, index)
        indptr = np.zeros(self.samples + 1, index)
        row = entry = 0
        while blocks:
            block = blocks.pop()
            block = block if sp.issparse(block) else _csr(block, block != 0)
            data[entry : entry + block.nnz] = block.data
            indices[entry : entry + block.nnz] = block.indices
            indptr[row + 1 : row + 1 + block.shape[0]] = block.indptr[1:].astype(index) + entry
            row, entry = row + block.shape[0], entry + block.nnz
        return sp.csr_array((data, indices, indptr), shape=(self.samples, self.features), copy=False)


def _is_sparse(nonzero: int, entries: int) -> bool:
    # Each stored entry also needs its column number, so sparse codes are smaller below one half.
    return nonzero < entries / 2


def _csr(block: npt.NDArray[np.float32], is_active: npt.NDArray[np.bool_]) -> Any:
    """Return `csr_array(block)`, four times as fast, because searching a mask is faster than searching floats."""
    flat = np.flatnonzero(is_active)
    indptr = np.zeros(len(block) + 1, np.int32)
    np.cumsum(np.count_nonzero(is_active, axis=1), out=indptr[1:])
    parts = (block.reshape(-1)[flat], (flat % block.shape[1]).astype(np.int32), indptr)
    return sp.csr_array(parts, shape=block.shape)
