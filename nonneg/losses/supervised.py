"""Losses that use labels: supervised contrastive learning, and cross entropy over non-negative features."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from nonneg.gathering import gather, mean_over_processes, total
from nonneg.losses._checks import (
    check_features,
    check_labels,
    check_same_width,
    checked_batch,
    checked_temperature,
    working_dtype,
)
from nonneg.losses._rows import full_precision, sum_over_rows, unit_rows

__all__ = ["cross_entropy", "sup_con"]


def sup_con(
    z: Tensor,
    labels: Tensor,
    temperature: float | Tensor = 0.2,
    group: dist.ProcessGroup | None = None,
    chunk_rows: int | None = None,
) -> Tensor:
    """Contrast the rows of one class with all other rows (supervised contrastive learning, Khosla et al., 2020).

        loss = mean over rows i of −1/|P(i)| Σ_{p∈P(i)} log( exp(z_i·z_p/τ) / Σ_{k≠i} exp(z_i·z_k/τ) )

    where rows are scaled to length 1, τ is the temperature and P(i), the positives, are the other rows of i's class.

    Args:
        z: `(rows, features)` in any floating-point dtype. For two views, pass `torch.cat((z1, z2))` and
            `labels.repeat(2)`. All-zero rows are allowed: their similarity to everything is 0.
        labels: `(rows,)` integers. A negative label means unlabelled. Unlabelled rows, and rows that are alone in
            their class, have no positives: they only serve as negatives for the other rows.
        temperature, group, chunk_rows: as in `nonneg.losses.info_nce`.

    Returns:
        A scalar, the mean over rows that have positives (0 if there are none), in float32 (float64 for float64 input).

    Example:
        >>> z = torch.eye(2).repeat(2, 1)
        >>> sup_con(z, torch.tensor([0, 1, 0, 1]), temperature=0.2)
        tensor(0.0134)
    """
    rank, processes, rows = checked_batch("supervised.sup_con", group, "row", z=z)
    check_labels("supervised.sup_con", labels, z)
    temperature = checked_temperature("supervised.sup_con", temperature, z)
    with full_precision(z):
        candidates = unit_rows(gather(z, group).flatten(0, 1))
        labels = labels.long()  # a dtype that every backend can send
        all_labels = gather(labels, group).flatten()
        own = torch.arange(rank * rows, (rank + 1) * rows, device=z.device)
        anchors = candidates[rank * rows : (rank + 1) * rows]
        shared = (candidates, all_labels, temperature)
        sums = sum_over_rows(_class_loss, (anchors, labels, own), shared, chunk_rows)
        loss, with_positive = sums.unbind()
        joint_count = total(with_positive, group).clamp(min=1)
        return mean_over_processes(loss * processes / joint_count, group)


def _class_loss(
    anchors: Tensor, labels: Tensor, own: Tensor, candidates: Tensor, all_labels: Tensor, temperature: Tensor
) -> Tensor:
    """Return the summed loss of these rows, and how many of them have positives."""
    logits = (anchors / temperature) @ candidates.T
    log_total = logits.scatter(1, own[:, None], float("-inf")).logsumexp(1)
    same = ((labels[:, None] == all_labels) & (all_labels >= 0)).scatter_(1, own[:, None], False)
    positives = same.sum(1)
    mean_logit = (logits * same).sum(1) / positives.clamp(min=1)
    # Multiplied by 0, not replaced by 0: rows without positives add nothing, but their NaN still shows.
    loss = (log_total - mean_logit) * (positives > 0)
    return torch.stack((loss.sum(), (positives > 0).sum().to(loss.dtype)))


def cross_entropy(z: Tensor, labels: Tensor, weight: Tensor, rectify_weight: bool = True) -> Tensor:
    """Cross entropy of a linear classifier over non-negative features, with non-negative weights.

        loss = mean over rows i of −log( exp(z_i·w_{y_i}) / Σ_c exp(z_i·w_c) )

    where w_c is the rectified weight of class c: with non-negative features, a feature only adds evidence for a class.

    Args:
        z: `(rows, features)` in any floating-point dtype; non-negative if it comes from `NonNegative`.
        labels: `(rows,)` integers from 0 to classes − 1.
        weight: `(classes, features)`.
        rectify_weight: apply relu to the weight. To keep its negative entries learning, pass
            `rep_relu(weight)` and `rectify_weight=False`.

    Returns:
        A scalar, the mean over rows, in float32 (float64 for float64 input).

    Example:
        >>> cross_entropy(torch.eye(2), torch.tensor([0, 1]), torch.tensor([[4.0, -4.0], [-4.0, 4.0]]))
        tensor(0.0181)
    """
    check_features("supervised.cross_entropy", z=z)
    check_labels("supervised.cross_entropy", labels, z)
    check_same_width("supervised.cross_entropy", z, weight=weight)
    with full_precision(z):
        dtype = torch.promote_types(working_dtype(z), weight.dtype)
        head = weight.to(dtype)
        logits = z.to(dtype) @ (F.relu(head) if rectify_weight else head).T
        # Not F.cross_entropy, which silently leaves out rows with the label -100.
        return -logits.log_softmax(1).gather(1, labels.long()[:, None]).mean()
