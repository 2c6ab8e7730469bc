"""How features relate to each other: correlation and effective rank."""

from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.metrics._activity import active_counts
from nonneg.metrics._codes import as_csr, as_dense, check, for_products, unit_columns


def correlation_matrix(z: Any) -> Tensor:
    """Return FᵀF, `(features, features)`, with columns of length 1, not centred; dead features give zeros.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix.

    Example:
        >>> correlation_matrix(torch.tensor([[3.0, 3.0], [4.0, -4.0]]))
        tensor([[ 1.0000, -0.2800],
                [-0.2800,  1.0000]])
    """
    columns: Tensor = unit_columns(as_dense(z, "correlation_matrix"))
    return columns.T @ columns


def correlation(z: Any) -> float:
    """Return the mean absolute off-diagonal entry of `correlation_matrix` over live features.

    It is 0 if fewer than two features are live.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix.

    Example:
        >>> round(correlation(torch.tensor([[3.0, 3.0], [4.0, -4.0]])), 4)
        0.28
    """
    return correlation_of(gram(z, "correlation"), active_counts(z, "correlation") > 0)


def correlation_of(products: Tensor, live: Tensor) -> float:
    """Return the correlation from `(features, features)` inner products."""
    products = products[live][:, live]
    lengths = products.diagonal().sqrt()
    matrix = (products / lengths / lengths[:, None]).abs()
    n = len(matrix)
    return float((matrix.sum() - matrix.trace()) / (n * (n - 1))) if n > 1 else 0.0


def effective_rank(z: Any) -> float:
    """Return the effective rank (Roy & Vetterli, 2007): exp of the entropy of the normalised singular values.

    It lies between 1 and min(samples, features), and is 0 if all codes are zero. Columns are not centred.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix.

    Example:
        >>> round(effective_rank(torch.eye(5)), 4)
        5.0
    """
    check(z, "effective_rank")
    return effective_rank_of(gram(z if z.shape[0] > z.shape[1] else z.T, "effective_rank"))


def effective_rank_of(products: Tensor) -> float:
    """Return the effective rank from `(features, features)` inner products.

    Their eigenvalues are the squared singular values. In float64 this costs a tenth of the SVD; it loses singular
    values below 1e-6 of the largest, which contribute no entropy.
    """
    squares = torch.linalg.eigvalsh(products)
    noise = squares.abs().max() * len(squares) * torch.finfo(squares.dtype).eps
    singular = squares.where(squares > noise, 0).sqrt()
    if not bool(singular.any()):
        return 0.0
    return float(torch.special.entr(singular / singular.sum()).sum().exp())


def gram(z: Any, metric: str) -> Tensor:
    """Return the `(features, features)` inner products of the columns, in float64."""
    z = for_products(z, metric)
    if sp.issparse(z):
        csr = as_csr(z, metric)
        return torch.from_numpy((csr.T @ csr).toarray())
    dense = as_dense(z, metric).double()
    return dense.T @ dense
