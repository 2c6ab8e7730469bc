"""How the features are spread: sparsity, live features, correlation, effective rank."""

from typing import Any

import torch
from torch import Tensor

from nonneg.metrics._codes import active_entries, as_dense, unit_columns


def sparsity(z: Any) -> float:
    """Share of a sample's entries below 1e-5 in absolute value, averaged; rows L2-normalised first.

    Example:
        >>> sparsity(torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]))
        0.625
    """
    active = active_entries(z, "sparsity")
    samples, features = active.shape
    return 1 - len(active.rows) / (samples * features)


def live_features(z: Any) -> Tensor:
    """`(features,)` booleans: active on at least one sample.

    Example:
        >>> live_features(torch.tensor([[1.0, 0.0], [2.0, 0.0]]))
        tensor([ True, False])
    """
    active = active_entries(z, "live_features")
    return torch.bincount(active.columns, minlength=active.shape[1]) > 0


def correlation_matrix(z: Any) -> Tensor:
    """`(features, features)`: FᵀF with columns of length 1, uncentred; dead features give zeros.

    Example:
        >>> correlation_matrix(torch.tensor([[3.0, 3.0], [4.0, -4.0]]))
        tensor([[ 1.0000, -0.2800],
                [-0.2800,  1.0000]])
    """
    columns = unit_columns(as_dense(z, "correlation_matrix"))
    return columns.T @ columns


def correlation(z: Any) -> float:
    """Mean absolute off-diagonal entry of the correlation matrix over live features; 0 if fewer than two are.

    Example:
        >>> round(correlation(torch.tensor([[3.0, 3.0], [4.0, -4.0]])), 4)
        0.28
    """
    dense = as_dense(z, "correlation")
    columns = unit_columns(dense[:, live_features(dense)])
    matrix = (columns.T @ columns).abs()
    n = len(matrix)
    return float((matrix.sum() - matrix.trace()) / (n * (n - 1))) if n > 1 else 0.0


def effective_rank(z: Any) -> float:
    """exp of the entropy of the singular values' shares (Roy & Vetterli), uncentred: 1 to features, 0 if all is zero.

    Example:
        >>> round(effective_rank(torch.eye(5)), 4)
        5.0
    """
    # The Gram matrix in float64 costs what a product costs, a tenth of the SVD; it loses singular
    # values under 1e-8 of the largest, which carry no entropy.
    dense = as_dense(z, "effective_rank").double()
    small = dense.T @ dense if dense.shape[0] > dense.shape[1] else dense @ dense.T
    singular = torch.linalg.eigvalsh(small).clamp(min=0).sqrt()
    if not bool(singular.any()):
        return 0.0
    share = singular / singular.sum()
    return float(torch.special.entr(share).sum().exp())
