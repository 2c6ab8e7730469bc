"""Soft positives: how much each sample resembles each other one, to be kept by the features."""

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.losses._checks import check_enough, check_features, checked_temperature
from nonneg.losses._rows import full_precision, unit_rows


def neighbourhood(z: Tensor, target: Tensor, temperature: float | Tensor = 0.05) -> Tensor:
    """Each sample must find the others in the proportions of `target`, by cosine similarity of the features.

    InfoNCE is the case of a target with one positive a row. With the similarities of a frozen embedding
    as target, its neighbourhood is the co-occurrence that the features factorise.

    Args:
        z: `(samples, features)`, any floating type. All-zero rows are fine: they resemble nothing.
        target: `(samples, samples)`, rows that sum to 1; the diagonal does not count and should be 0.
        temperature: similarities are divided by it; a scalar tensor if it is to be learnt.

    Returns:
        A scalar, the mean cross entropy of the rows, in float32 (float64 for float64 input). It is the
        Kullback-Leibler divergence from `target` plus the target's entropy, which is constant.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> partner = torch.eye(4)[[1, 0, 3, 2]]
        >>> neighbourhood(z, partner, temperature=0.2)
        tensor(0.0134)
    """
    check_features("neighbourhood", z=z)
    check_enough("neighbourhood", len(z), "row")
    if target.shape != (len(z), len(z)):
        raise ValueError(f"neighbourhood: target has shape {tuple(target.shape)}, expected {(len(z), len(z))}")
    temperature = checked_temperature("neighbourhood", temperature, z)
    with full_precision(z):
        features = unit_rows(z)
        logits = (features / temperature) @ features.T
        itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
        # The diagonal is left out of the sum by a finite number: minus infinity times a target of 0 is not 0.
        likely = F.log_softmax(logits.masked_fill(itself, torch.finfo(logits.dtype).min), 1).masked_fill(itself, 0.0)
        return -(target.to(likely.dtype) * likely).sum(1).mean()
