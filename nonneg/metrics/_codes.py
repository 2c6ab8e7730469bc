"""The inputs of metrics: codes as torch, NumPy or SciPy sparse matrices, on any device; one label per sample."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.codes import active, canonical, dense, unit_rows
from nonneg.labels import label_numbers

_DENSE = 0.1
_NON_FINITE = "{}: z holds NaN or infinite values, expected finite ones"


def as_dense(z: Any, metric: str) -> Tensor:
    """Return a finite `(samples, features)` tensor in float32 or better."""
    check(z, metric)
    z = dense(z)
    if isinstance(z, np.ndarray):
        # torch accepts no read-only memory (a memory map), negative strides or foreign dtypes: those are copied.
        z = z.astype(np.float64 if z.dtype.char == "g" else z.dtype.newbyteorder("="), copy=False)
        z = torch.from_numpy(z if z.flags.writeable and z.flags.c_contiguous else z.copy())
    z = z.detach().cpu() if z.device.type == "mps" else z.detach()  # MPS has no float64
    tensor: Tensor = z.to(torch.promote_types(z.dtype, torch.float32))
    if not bool(tensor.isfinite().all()):
        raise ValueError(_NON_FINITE.format(metric))
    return tensor


def as_csr(z: Any, metric: str) -> sp.csr_array:
    """Return `(samples, features)` in float64 with sorted, unique entries; `z` is on the CPU."""
    csr = canonical_csr(z, metric)
    # The same dtypes for every input, so that kernels are compiled once.
    parts = csr.data.astype(np.float64), csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return sp.csr_array(parts, shape=csr.shape)


def canonical_csr(z: Any, metric: str) -> sp.csr_array:
    """Return `as_csr` in the dtypes of the input, without a copy where possible: do not write to it."""
    check(z, metric)
    csr = canonical(sp.csr_array(z if sp.issparse(z) else as_dense(z, metric).numpy()))
    if not np.isfinite(csr.data).all():
        raise ValueError(_NON_FINITE.format(metric))
    return csr


def for_products(z: Any, metric: str) -> Any:
    """Return CSR where `z` is sparse or, on the CPU, mostly zero: products are faster then. Otherwise `z` itself."""
    check(z, metric)
    if sp.issparse(z) or on_gpu(z):
        return z
    tensor = as_dense(z, metric)
    return canonical_csr(tensor, metric) if int(tensor.count_nonzero()) < _DENSE * tensor.numel() else tensor


def unit_codes(z: Any, metric: str) -> Any:
    """Return the rows scaled to length 1 in float64, as CSR if `z` is sparse, otherwise as a tensor."""
    return unit_rows(as_csr(z, metric) if sp.issparse(z) else as_dense(z, metric).double())


def unit_tensors(a: Any, b: Any, metric: str) -> tuple[Tensor, Tensor]:
    """Return the rows of both scaled to length 1, in float64 and on one device: a GPU if either is on one."""
    x, y = as_dense(a, metric), as_dense(b, metric)
    device = x.device if on_gpu(x) else y.device
    return unit_rows(x.to(device).double()), unit_rows(y.to(device).double())


def unit_pair(a: Any, b: Any, metric: str) -> tuple[Any, Any]:
    """Return the rows of both scaled to length 1, as CSR if products of both are faster so, otherwise as tensors."""
    a, b = for_products(a, metric), for_products(b, metric)
    if sp.issparse(a) and sp.issparse(b):
        return unit_rows(as_csr(a, metric)), unit_rows(as_csr(b, metric))
    return unit_tensors(a, b, metric)


def unit_cosines(queries: Any, candidates: Any) -> Tensor:
    """Return the inner products `(queries, candidates)` of unit rows, both tensors or both CSR."""
    return torch.as_tensor(dense(queries @ candidates.T))


def unit_columns(z: Any) -> Any:
    """Return the columns of a tensor or CSR matrix scaled to length 1; a dead column stays zero."""
    return unit_rows(z.T).T


def active_entries(z: Any, metric: str) -> tuple[Tensor, Tensor]:
    """Return the rows and columns of the active entries, as `nonneg.codes` defines them; rows ascend."""
    if sp.issparse(z):
        rows, columns = active(canonical_csr(z, metric)).tocoo().coords
        return torch.from_numpy(rows.astype(np.int64)), torch.from_numpy(columns.astype(np.int64))
    rows, columns = active(as_dense(z, metric)).nonzero(as_tuple=True)
    return rows, columns


def on_gpu(z: Any) -> bool:
    """Return whether `z` is a tensor outside the CPU's memory."""
    return isinstance(z, Tensor) and z.device.type != "cpu"


def require(metric: str, *checks: tuple[bool, str]) -> None:
    """Raise an error with the message of the first check that does not hold; the metric's name starts it."""
    for holds, message in checks:
        if not holds:
            raise ValueError(f"{metric}: {message}")


def check(z: Any, metric: str) -> None:
    """Check that `z` is a non-empty floating-point matrix."""
    known = isinstance(z, Tensor | np.ndarray) or sp.issparse(z)
    if not known or not (z.is_floating_point() if isinstance(z, Tensor) else z.dtype.kind == "f"):
        found = z.dtype if known else type(z).__name__
        raise TypeError(f"{metric}: z is {found}, expected a floating-point torch, NumPy or SciPy sparse matrix")
    if z.ndim != 2 or 0 in z.shape:
        raise ValueError(f"{metric}: z has shape {tuple(z.shape)}, expected a non-empty (samples, features)")


def as_labels(labels: Any, samples: int, metric: str, name: str = "labels") -> Tensor:
    """Return `(samples,)` integers on the CPU, numbered from 0; -1 where unlabelled."""
    numbers, _ = label_numbers(_checked(labels, samples, metric, name), f"{metric}: {name}")
    return torch.from_numpy(numbers)


def as_integers(labels: Any, samples: int, metric: str) -> Tensor:
    """Return `(samples,)` integers on the CPU, not renumbered: the numbers mean the same in every batch."""
    given = np.asarray(_checked(labels, samples, metric, "labels"))
    if given.dtype.kind not in "iub":
        raise ValueError(f"{metric}: labels is {given.dtype}, expected integers")
    return torch.from_numpy(given.astype(np.int64))


def labelled(z: Any, labels: Any, metric: str) -> tuple[Any, Tensor, Tensor]:
    """Return the labelled samples, their labels from 0, and `(samples,)` booleans: which samples are labelled."""
    check(z, metric)
    y = as_labels(labels, z.shape[0], metric)
    known = y >= 0
    if bool(known.all()):
        return z, y, known
    kept = known.to(z.device) if isinstance(z, Tensor) else known.numpy()
    return (sp.csr_array(z) if sp.issparse(z) else z)[kept], y[known], known


def _checked(labels: Any, samples: int, metric: str, name: str) -> Any:
    if labels is None:
        raise TypeError(f"{metric}: {name} is None, expected one label per sample")
    given = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else labels
    if np.shape(given) != (samples,):
        raise ValueError(f"{metric}: {name} has shape {np.shape(given)}, expected ({samples},), one label per sample")
    return given
