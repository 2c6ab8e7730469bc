"""Soft positives: features that reproduce given similarities between samples."""

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.losses._checks import checked_batch, checked_temperature
from nonneg.losses._rows import full_precision, unit_rows


def neighbourhood(z: Tensor, target: Tensor, temperature: float | Tensor = 0.05) -> Tensor:
    """Match the similarities of the features to a target distribution over the other samples.

        loss = mean over samples i of −Σ_{j≠i} target_ij · log( exp(z_i·z_j/τ) / Σ_{k≠i} exp(z_i·z_k/τ) )

    where rows are scaled to length 1 and τ is the temperature. InfoNCE is the case of one positive per row. With the
    similarities of a frozen embedding as the target, the features factorise that embedding's neighbourhoods.

    Args:
        z: `(samples, features)` in any floating-point dtype. All-zero rows are allowed: their similarity to
            everything is 0.
        target: `(samples, samples)`; each row sums to 1. The diagonal is ignored and should be 0.
        temperature: the divisor of the similarities; a scalar tensor makes it learnable.

    Returns:
        A scalar, the mean cross entropy of the rows, in float32 (float64 for float64 input). It equals the
        Kullback-Leibler divergence from `target` plus the entropy of `target`, which is constant.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> partner = torch.eye(4)[[1, 0, 3, 2]]
        >>> neighbourhood(z, partner, temperature=0.2)
        tensor(0.0134)
    """
    checked_batch("neighbourhood", None, "row", z=z)
    if target.shape != (len(z), len(z)):
        raise ValueError(f"neighbourhood: target has shape {tuple(target.shape)}, expected {(len(z), len(z))}")
    temperature = checked_temperature("neighbourhood", temperature, z)
    with full_precision(z):
        features = unit_rows(z)
        logits = (features / temperature) @ features.T
        diagonal = torch.eye(len(z), dtype=torch.bool, device=z.device)
        # A finite number masks the diagonal: minus infinity times a target of 0 would be NaN.
        masked = logits.masked_fill(diagonal, torch.finfo(logits.dtype).min)
        log_shares = F.log_softmax(masked, 1).masked_fill(diagonal, 0.0)
        return -(target.to(log_shares.dtype) * log_shares).sum(1).mean()
