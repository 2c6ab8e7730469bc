"""Products of sparse matrices with dense ones: the values may change from step to step, the pattern does not."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

_LONG, _PIECE = 16, 64  # rows with more entries on average are cut into pieces of at most so many


class Pattern(NamedTuple):
    """Where a sparse matrix `(rows, columns)` has entries, by rows (CSR), and where its transpose has them.

    Attributes:
        starts: `(rows + 1,)` int32, the first entry of each row.
        columns: `(entries,)` int32.
        starts_t, columns_t: the same for the transpose.
        order_t: `(entries,)` int64, the entries in the order of the transpose.
    """

    starts: Tensor
    columns: Tensor
    starts_t: Tensor
    columns_t: Tensor
    order_t: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns."""
        return len(self.starts) - 1, len(self.starts_t) - 1

    @property
    def rows(self) -> Tensor:
        """`(entries,)` int64, the row of each entry."""
        counts = (self.starts[1:] - self.starts[:-1]).long()
        every = torch.arange(len(counts), device=counts.device)
        return every.repeat_interleave(counts, output_size=len(self.columns))


def pattern_of(matrix: sp.csr_array) -> Pattern:
    """Return the pattern of a SciPy matrix whose entries are sorted by row and column."""
    numbers = np.arange(1, matrix.nnz + 1, dtype=np.int64)  # from 1: zeros would be lost
    other = sp.csr_array((numbers, matrix.indices, matrix.indptr), shape=matrix.shape).T.tocsr()
    other.sort_indices()
    indices = (matrix.indptr, matrix.indices, other.indptr, other.indices)
    starts, columns, starts_t, columns_t = (torch.from_numpy(part.astype(np.int32)) for part in indices)
    return Pattern(starts, columns, starts_t, columns_t, torch.from_numpy(other.data - 1))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, values: Tensor, *pattern: Tensor) -> Tensor:
        ctx.pattern, ctx.dtype = Pattern(*pattern), dense.dtype
        ctx.save_for_backward(values)
        return _multiplied(ctx.pattern.starts, ctx.pattern.columns, values, dense)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (values,), pattern = ctx.saved_tensors, ctx.pattern
        transposed = values[pattern.order_t]
        grad = _multiplied(pattern.starts_t, pattern.columns_t, transposed, grad_outputs[0])
        return grad.to(ctx.dtype), None, *(None,) * len(Pattern._fields)


def product(pattern: Pattern, values: Tensor, dense: Tensor) -> Tensor:
    """Return the product of a sparse matrix with a dense one, with a gradient for the dense one.

    Unlike messages along edges, which are gathered and then added, it takes no memory per entry.

    Args:
        pattern: where the sparse matrix `(rows, inner)` has entries.
        values: `(entries,)` floats, without a gradient.
        dense: `(inner, columns)`.

    Example:
        >>> matrix = sp.csr_array(np.array([[0.0, 2.0], [1.0, 0.0]]))
        >>> product(pattern_of(matrix), torch.from_numpy(matrix.data), torch.eye(2).double())
        tensor([[0., 2.],
                [1., 0.]], dtype=torch.float64)
    """
    result: Tensor = _Product.apply(dense, values, *pattern)  # type: ignore[no-untyped-call]
    return result


def _multiplied(starts: Tensor, columns: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    """Return, for each row of the sparse matrix, the sum of its entries times the rows of the dense one.

    torch has this as sums over bags of embeddings, on every device and without its sparse tensors, which are in beta.
    """
    wide = dense.to(torch.promote_types(dense.dtype, torch.float32)).contiguous()
    if dense.is_meta:  # only shapes are wanted
        return wide.new_empty(len(starts) - 1, dense.shape[1])
    weights, bounds = values.to(wide.dtype), None
    if len(columns) > _LONG * (len(starts) - 1):
        starts, bounds = _in_pieces(starts, len(columns))
    sums = F.embedding_bag(columns, wide, starts, mode="sum", per_sample_weights=weights, include_last_offset=True)
    if bounds is None:
        return sums
    every = torch.arange(len(sums), dtype=bounds.dtype, device=bounds.device)
    return F.embedding_bag(every, sums, bounds, mode="sum", include_last_offset=True)


def _in_pieces(starts: Tensor, entries: int) -> tuple[Tensor, Tensor]:
    """Cut rows into pieces; return the first entry of each piece `(pieces + 1,)` and the first piece of each row.

    A GPU adds up a row entry by entry: a word that ten thousand nodes use would keep all other rows waiting.
    """
    every = torch.arange(0, entries, _PIECE, dtype=starts.dtype, device=starts.device)
    cuts = torch.cat((starts, every)).sort().values
    bounds = torch.searchsorted(cuts, starts[:-1].contiguous(), out_int32=True)
    return cuts, F.pad(bounds, (0, 1), value=len(cuts) - 1)
