"""InfoNCE over two views, also known as NT-Xent: the loss of SimCLR."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from nonneg.losses._checks import check_enough, check_features, checked_temperature
from nonneg.losses._gather import gather, mean_over_processes, rank_and_size
from nonneg.losses._rows import full_precision, sum_over_rows, unit_rows


def info_nce(
    z1: Tensor,
    z2: Tensor,
    temperature: float | Tensor = 0.2,
    group: dist.ProcessGroup | None = None,
    chunk_rows: int | None = None,
) -> Tensor:
    """Each view must pick its partner out of all other views of the batch, by cosine similarity.

    Args:
        z1, z2: `(pairs, features)`, any floating type; row i of both are two views of one sample.
            All-zero rows are fine: they resemble nothing.
        temperature: similarities are divided by it; a scalar tensor if it is to be learnt.
        group: take negatives from all these processes. The value is then the loss of the joint
            batch, and gradients averaged over processes (as DDP does) are those of the joint batch.
            Every process must bring the same number of rows.
        chunk_rows: evaluate that many rows at a time, so that memory grows linearly with the batch.

    Returns:
        A scalar, the mean over all views, in float32 (float64 for float64 input).

    Example:
        >>> z = torch.eye(3)
        >>> info_nce(z, z, temperature=0.2)
        tensor(0.0266)
    """
    check_features("info_nce", z1=z1, z2=z2)
    temperature = checked_temperature("info_nce", temperature, z1)
    rank, processes = rank_and_size(group)
    pairs = len(z1)
    check_enough("info_nce", pairs * processes, "pair")
    with full_precision(z1):
        # Gathered as (processes, view, pair, feature), laid out as all first views, then all second ones.
        views = gather(torch.stack((z1, z2)), group).transpose(0, 1)
        candidates = unit_rows(views.reshape(2 * processes * pairs, -1))
        half = processes * pairs
        first = torch.arange(rank * pairs, (rank + 1) * pairs, device=z1.device)
        own = torch.cat((first, first + half))
        partner = torch.cat((first + half, first))
        # When everything is local the anchors are all candidates: indexing would copy them for nothing.
        anchors = candidates if group is None else candidates[own]
        loss = sum_over_rows(_partner_loss, (anchors, own, partner), (candidates, temperature), chunk_rows)
        return mean_over_processes(loss / (2 * pairs), group)


def _partner_loss(anchors: Tensor, own: Tensor, partner: Tensor, candidates: Tensor, temperature: Tensor) -> Tensor:
    logits = ((anchors / temperature) @ candidates.T).scatter_(1, own[:, None], float("-inf"))
    return F.cross_entropy(logits, partner, reduction="sum")
