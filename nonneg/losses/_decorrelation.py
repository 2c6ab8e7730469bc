"""Losses without negatives: Barlow Twins and VICReg, which decorrelate the features instead."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from nonneg.gathering import gather, sum_over_processes
from nonneg.losses._checks import check_weights, checked_batch, working_dtype
from nonneg.losses._rows import full_precision

_ONE_ROW = "the statistics of a single one are undefined"


def barlow_twins(z1: Tensor, z2: Tensor, redundancy: float = 0.005, group: dist.ProcessGroup | None = None) -> Tensor:
    """Make each feature agree over two views and decorrelate the features (Barlow Twins, Zbontar et al., 2021).

        loss = Σ_i (1 − C_ii)² + redundancy · Σ_i Σ_{j≠i} C_ij²

    where C, `(features, features)`, is the correlation over the batch of feature i of `z1` and feature j of `z2`.
    A feature that is constant over the batch has correlation 0 with every feature.

    This is the paper's formula; its pseudocode divides by the standard deviation with Bessel's correction, so that C
    is smaller by the factor (pairs − 1)/pairs, and the released code adds 1e-5 to each variance.

    Args:
        z1, z2: `(pairs, features)` in any floating-point dtype; row i of both are two views of one sample.
        redundancy: the weight of the off-diagonal entries; the paper's λ.
        group: compute the correlations over the batch of all these processes. The value is then the loss of the
            joint batch, and gradients averaged over processes, as DDP does, are those of the joint batch. Every
            process must pass the same number of rows. Only statistics over the batch and its first row are sent.

    Returns:
        A scalar, a sum over features, in float32 (float64 for float64 input).

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
        >>> barlow_twins(z, z)
        tensor(0.)
        >>> barlow_twins(z, z.flip(1))
        tensor(2.0100)
    """
    _, processes, rows = checked_batch("barlow_twins", group, reason=_ONE_ROW, z1=z1, z2=z2)
    check_weights("barlow_twins", redundancy=redundancy)
    pairs = processes * rows
    with full_precision(z1):
        a, b = (_standardised(_centred(z, pairs, group), group) for z in (z1, z2))
        correlation = sum_over_processes(a.T @ b, group)
        agreement = (1 - correlation.diagonal()).square().sum()
        return agreement + redundancy * _off_diagonal(correlation).square().sum()


def vicreg(
    z1: Tensor,
    z2: Tensor,
    similarity: float = 25.0,
    variance: float = 25.0,
    covariance: float = 1.0,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Pull two views together while every feature keeps its variance (VICReg, Bardes et al., 2022).

        loss = similarity · mean (z1 − z2)²
             + variance   · Σ_views 1/d Σ_j max(0, 1 − √(Var_j + 1e-4))
             + covariance · Σ_views 1/d Σ_i Σ_{j≠i} Cov_ij²

    where d is the number of features, the first mean is over all entries, and variances and covariances are taken
    over the batch with Bessel's correction. Rows are not normalised. Constant features are allowed.

    This is the paper's pseudocode, for which the default weights are meant; the paper's equation does not divide the
    first term by d, and the released code halves the variance term (`variance=12.5` here).

    Args:
        z1, z2: `(pairs, features)` in any floating-point dtype; row i of both are two views of one sample.
        similarity: the weight of the distance between the views; the paper's λ.
        variance: the weight of the hinge that keeps standard deviations above 1; the paper's μ.
        covariance: the weight of the off-diagonal covariances; the paper's ν.
        group: compute the statistics over the batch of all these processes, as in `barlow_twins`.

    Returns:
        A scalar in float32 (float64 for float64 input).

    Example:
        >>> z = torch.tensor([[3.0, 0.0], [0.0, 0.0], [3.0, 3.0], [0.0, 3.0]])
        >>> vicreg(z, z)
        tensor(0.)
        >>> vicreg(z, torch.zeros_like(z))
        tensor(137.2500)
    """
    _, processes, rows = checked_batch("vicreg", group, reason=_ONE_ROW, z1=z1, z2=z2)
    check_weights("vicreg", similarity=similarity, variance=variance, covariance=covariance)
    pairs, features = processes * rows, z1.shape[1]
    with full_precision(z1):
        dtype = working_dtype(z1)
        distance = sum_over_processes((z1.to(dtype) - z2.to(dtype)).square().sum(), group)
        loss = similarity * distance / (pairs * features)
        for z in (z1, z2):
            centred = _centred(z, pairs, group)
            matrix = sum_over_processes(centred.T @ centred, group) / (pairs - 1)
            hinge = F.relu(1 - (matrix.diagonal() + 1e-4).sqrt()).mean()
            loss = loss + variance * hinge + covariance * _off_diagonal(matrix).square().sum() / features
        return loss


def _centred(z: Tensor, pairs: int, group: dist.ProcessGroup | None) -> Tensor:
    """Return the rows less the mean row of the joint batch; a constant feature becomes exactly zero."""
    z = z.to(working_dtype(z))
    # Subtracting the joint batch's first row first changes no statistic. Without it, a constant feature would leave
    # the rounding error of its mean, which `_standardised` would scale up to noise of length 1.
    shifted = z - gather(z[:1].detach(), group)[0]
    return shifted - sum_over_processes(shifted.sum(0), group) / pairs


def _standardised(centred: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Return the columns scaled to length 1 over the joint batch; a zero column stays zero."""
    # Scaling by the largest entry first keeps the squares of very large or small entries within range. It is a
    # constant for the gradient, which is exact all the same: the result does not depend on a column's scale.
    peak = gather(centred.detach().abs().amax(0), group).amax(0)
    scaled = centred / peak.masked_fill(peak == 0, 1)
    squares = sum_over_processes(scaled.square().sum(0), group)
    return scaled / squares.masked_fill(squares == 0, 1).sqrt()


def _off_diagonal(matrix: Tensor) -> Tensor:
    return matrix - torch.diag(matrix.diagonal())
