"""Losses that use labels: supervised contrastive, and cross entropy over non-negative features."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from nonneg.losses._checks import check_enough, check_features, check_labels, checked_temperature, working_dtype
from nonneg.losses._gather import gather, mean_over_processes, rank_and_size, total
from nonneg.losses._rows import full_precision, sum_over_rows, unit_rows

__all__ = ["cross_entropy", "sup_con"]


def sup_con(
    z: Tensor,
    labels: Tensor,
    temperature: float | Tensor = 0.2,
    group: dist.ProcessGroup | None = None,
    chunk_rows: int | None = None,
) -> Tensor:
    """Every sample of the same class is a positive; the mean log-likelihood of picking one of them.

    Args:
        z: `(rows, features)`, any floating type. For two views pass `torch.cat((z1, z2))` and
            `labels.repeat(2)`.
        labels: `(rows,)` integers. A row that is alone in its class has no positive and is only a
            negative for the others.
        temperature, group, chunk_rows: as in `nonneg.losses.info_nce`.

    Returns:
        A scalar, the mean over rows that have a positive (0 if none has), in float32 (float64 for
        float64 input).

    Example:
        >>> z = torch.eye(2).repeat(2, 1)
        >>> sup_con(z, torch.tensor([0, 1, 0, 1]), temperature=0.2)
        tensor(0.0134)
    """
    check_features("supervised.sup_con", z=z)
    check_labels("supervised.sup_con", labels, z)
    temperature = checked_temperature("supervised.sup_con", temperature, z)
    rank, processes = rank_and_size(group)
    rows = len(z)
    check_enough("supervised.sup_con", rows * processes, "row")
    with full_precision(z):
        candidates = unit_rows(gather(z, group).flatten(0, 1))
        labels = labels.long()  # a type that every backend can send
        everyones_labels = gather(labels, group).flatten()
        own = torch.arange(rank * rows, (rank + 1) * rows, device=z.device)
        anchors = candidates[rank * rows : (rank + 1) * rows]
        shared = (candidates, everyones_labels, temperature)
        sums = sum_over_rows(_class_loss, (anchors, labels, own), shared, chunk_rows)
        loss, with_positive = sums.unbind()
        joint_count = total(with_positive, group).clamp(min=1)
        return mean_over_processes(loss * processes / joint_count, group)


def _class_loss(
    anchors: Tensor, labels: Tensor, own: Tensor, candidates: Tensor, all_labels: Tensor, temperature: Tensor
) -> Tensor:
    """The summed loss of these rows, and how many of them have a positive."""
    logits = (anchors / temperature) @ candidates.T
    log_total = logits.scatter(1, own[:, None], float("-inf")).logsumexp(1)
    same = (labels[:, None] == all_labels).scatter_(1, own[:, None], False)
    positives = same.sum(1)
    mean_logit = (logits * same).sum(1) / positives.clamp(min=1)
    # Times 0, not 0: rows without a positive add nothing, but NaN must not hide among them.
    loss = (log_total - mean_logit) * (positives > 0)
    return torch.stack((loss.sum(), (positives > 0).sum().to(loss.dtype)))


def cross_entropy(z: Tensor, labels: Tensor, weight: Tensor, rectify_weight: bool = True) -> Tensor:
    """Cross entropy over f₊(x)·w_c: with non-negative weights a logit is a sum of evidence, never against.

    Args:
        z: `(rows, features)`, non-negative if it comes out of `NonNegative`; any floating type.
        labels: `(rows,)` integers from 0 to the number of classes − 1.
        weight: `(classes, features)`, one row a class.
        rectify_weight: take relu of the weight. To keep its negative entries learning, pass
            `rep_relu(weight)` and `rectify_weight=False`.

    Returns:
        A scalar, the mean over rows, in float32 (float64 for float64 input).

    Example:
        >>> cross_entropy(torch.eye(2), torch.tensor([0, 1]), torch.tensor([[4.0, -4.0], [-4.0, 4.0]]))
        tensor(0.0181)
    """
    check_features("supervised.cross_entropy", z=z)
    check_features("supervised.cross_entropy", weight=weight)
    check_labels("supervised.cross_entropy", labels, z)
    if weight.device != z.device:
        raise ValueError(
            f"supervised.cross_entropy: z is on {z.device} and weight on {weight.device}, expected the same"
        )
    if weight.shape[1] != z.shape[1]:
        raise ValueError(
            f"supervised.cross_entropy: weight has shape {tuple(weight.shape)}, expected (classes, {z.shape[1]}),"
            " one column a feature"
        )
    with full_precision(z):
        dtype = torch.promote_types(working_dtype(z), weight.dtype)
        head = weight.to(dtype)
        logits = z.to(dtype) @ (F.relu(head) if rectify_weight else head).T
        # A mean over all rows: torch would leave out those labelled -100, so that label must not mean anything.
        return -logits.log_softmax(1).gather(1, labels.long()[:, None]).mean()
