"""What the losses over rows of similarities share: unit rows, row-wise evaluation in chunks, float32."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nonneg.losses._checks import working_dtype


def full_precision(z: Tensor) -> torch.autocast:
    """No autocast inside: it would take the similarities in half precision, where 1/τ blows rounding up."""
    return torch.autocast(z.device.type, enabled=False)


def unit_rows(z: Tensor) -> Tensor:
    """Rows of length 1 in float32 or better; an all-zero row stays zero.

    Rectified features do have all-zero rows. `F.normalize` divides those by 1e-12, and so their
    gradient too; here they are divided by the mean length of all rows: the value is still
    zero, and the gradient that revives the row is of the size of its neighbours'.
    """
    z = z.to(working_dtype(z))
    # Squares of large entries (exp makes them) overflow, those of small ones vanish: scale by the peak first.
    peak = z.detach().abs().amax(dim=1, keepdim=True)
    empty = peak == 0
    scaled = z / peak.masked_fill(empty, 1)
    # The second masked_fill keeps the square root's infinite slope at 0 out of the gradient.
    length = scaled.square().sum(1, keepdim=True).masked_fill(empty, 1).sqrt()
    typical = (peak * length).detach().mean()
    typical = typical.masked_fill(typical == 0, 1)
    return scaled / torch.where(empty, typical, length)


def sum_over_rows(
    loss_of_rows: Callable[..., Tensor], rows: tuple[Tensor, ...], shared: tuple[Tensor, ...], chunk_rows: int | None
) -> Tensor:
    """`loss_of_rows(*rows, *shared)`, a sum over rows, at once or a chunk at a time.

    In chunks, the similarities of a chunk are dropped after use and computed again for the
    backward pass: memory is chunk x candidates instead of rows x candidates, for a third more work.
    """
    if chunk_rows is None:
        return loss_of_rows(*rows, *shared)
    if chunk_rows < 1:
        raise ValueError(f"chunk_rows is {chunk_rows}, expected at least 1, or None for all rows at once")
    sums = [
        checkpoint(loss_of_rows, *chunk, *shared, use_reentrant=False, preserve_rng_state=False)
        for chunk in zip(*(r.split(chunk_rows) for r in rows), strict=True)
    ]
    return torch.stack(sums).sum(0)
