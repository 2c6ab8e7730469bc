"""Codes as lists for compiled loops, and threads to run them in. Imported on first use: numba is slow to load."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import scipy.sparse as sp
import torch

from nonneg.compiled import Function, Lists, compiled


def row_lists(csr: sp.csr_array) -> Lists:
    """Return the features of each row."""
    return Lists(csr.indptr, csr.indices, csr.data)


def column_lists(csr: sp.csr_array) -> Lists:
    """Return the rows of each feature (inverted lists)."""
    csc = csr.tocsc()
    return Lists(csc.indptr.astype("int64"), csc.indices.astype("int64"), csc.data)


def compiled_in_any_order(function: Function) -> Function:
    """Compile sums and maxima of finite numbers so that they may be vectorised, which changes their order."""
    return compiled(function, fastmath={"reassoc", "nnan", "nsz"})


def in_threads(work: Callable[[int, int], object], total: int, block: int) -> None:
    """Call `work(first, last)` for blocks of 0..total, in as many threads as torch uses.

    These are Python threads: numba's neither survive a fork nor accept calls from two threads.
    """
    blocks = [(first, min(first + block, total)) for first in range(0, total, block)]
    with ThreadPoolExecutor(min(torch.get_num_threads(), len(blocks))) as pool:
        for done in [pool.submit(work, first, last) for first, last in blocks]:
            done.result()
