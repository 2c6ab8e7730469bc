"""InfoNCE over two views, also known as NT-Xent: the loss of SimCLR, with an optional queue as in MoCo."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from nonneg.gathering import gather, mean_over_processes
from nonneg.losses._checks import check_same_width, checked_batch, checked_related, checked_temperature
from nonneg.losses._rows import full_precision, sum_over_rows, unit_rows, unrelated_partner_loss
from nonneg.losses._triangle import LEAST_TEMPERATURE, triangle_loss


def info_nce(
    z1: Tensor,
    z2: Tensor,
    temperature: float | Tensor = 0.2,
    group: dist.ProcessGroup | None = None,
    chunk_rows: int | None = None,
    negatives: Tensor | None = None,
    related: Tensor | None = None,
) -> Tensor:
    """Contrast two views of each sample with all other views of the batch (InfoNCE, SimCLR's NT-Xent).

    Each view must identify its partner, the other view of the same sample, among all other views:

        loss = mean over views v of −log( exp(v·p/τ) / Σ_u exp(v·u/τ) )

    where rows are scaled to length 1, p is the partner of v, τ is the temperature, and u runs over all views of the
    batch except v, and over `negatives`.

    Args:
        z1, z2: `(pairs, features)` in any floating-point dtype; row i of both are two views of one sample.
            All-zero rows are allowed: their similarity to everything is 0.
        temperature: the divisor of the similarities; a scalar tensor makes it learnable.
        group: also use the views of these processes as negatives. The value is then the loss of the joint
            batch, and gradients averaged over processes, as DDP does, are those of the joint batch.
            Every process must pass the same number of rows. None uses the local batch and sends nothing.
        chunk_rows: evaluate this many rows at a time, so that memory grows linearly with the batch.
        negatives: `(count, features)` further negatives for every view, such as a queue of earlier features
            (MoCo), in any floating-point dtype. It is shared by all processes: each must pass the same tensor, as MoCo
            does by gathering features before it adds them to its queue; it is never sent. Detach it if it is constant.
        related: `(pairs,)` integers: pairs with the same number, such as several captions of one picture, are never
            negatives of each other, on any process. None if every other pair is a negative.

    Returns:
        A scalar, the mean over all views, in float32 (float64 for float64 input).

    Example:
        >>> z = torch.eye(3)
        >>> info_nce(z, z, temperature=0.2)
        tensor(0.0266)
        >>> queue = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
        >>> info_nce(z, z, temperature=0.2, negatives=queue)
        tensor(0.2894)
    """
    rank, processes, pairs = checked_batch("info_nce", group, least=2 if negatives is None else 1, z1=z1, z2=z2)
    divisor = checked_temperature("info_nce", temperature, z1)
    if negatives is not None:
        check_same_width("info_nce", z1, negatives=negatives)
    related = checked_related("info_nce", related, z1)
    with full_precision(z1):
        # Gathered as (processes, view, pair, feature), laid out as all first views, then all second views.
        views = gather(torch.stack((z1, z2)), group).transpose(0, 1)
        units = unit_rows(views.reshape(2 * processes * pairs, -1))
        own, partner = _own_and_partner(rank, processes, pairs, z1.device)
        alone = group is None and negatives is None  # then the anchors are all views, and so are the candidates

        def summed(candidates: Tensor) -> Tensor:
            anchors = candidates if alone else units if group is None else units[own]  # all views need no copy
            if related is None:
                return sum_over_rows(_partner_loss, (anchors, own, partner), (candidates, divisor), chunk_rows)
            numbers = gather(related, group).flatten().repeat(2)
            unrelated = (numbers.max() + 1).expand(len(candidates) - len(numbers))  # of a queue
            everyone = torch.cat((numbers, unrelated))
            rows = (anchors, partner, numbers[own])
            return sum_over_rows(unrelated_partner_loss, rows, (candidates, divisor, everyone), chunk_rows)

        is_constant = not isinstance(temperature, Tensor) and temperature >= LEAST_TEMPERATURE
        if alone and related is None and is_constant and chunk_rows is not None and chunk_rows > 0:
            loss = triangle_loss(units, partner, float(temperature), chunk_rows, summed)
        else:
            loss = summed(units if negatives is None else torch.cat((units, unit_rows(negatives).to(units.dtype))))
        return mean_over_processes(loss / (2 * pairs), group)


def _own_and_partner(rank: int, processes: int, pairs: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the rows of a process's own views among all views, and the rows of their partners."""
    first = torch.arange(rank * pairs, (rank + 1) * pairs, device=device)
    second = first + processes * pairs
    return torch.cat((first, second)), torch.cat((second, first))


def _partner_loss(anchors: Tensor, own: Tensor, partner: Tensor, candidates: Tensor, temperature: Tensor) -> Tensor:
    logits = ((anchors / temperature) @ candidates.T).scatter_(1, own[:, None], float("-inf"))
    return F.cross_entropy(logits, partner, reduction="sum")
