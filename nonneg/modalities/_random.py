"""Random numbers that depend on what they are for, not on when they are drawn.

Philox4x32-10 (Salmon et al., 2011) is a counter-based generator: a sample's numbers depend only on (seed, epoch,
sample, view), so they stay the same however a batch is split, ordered, compiled or resumed. torch's own generators
count draws, which all of these change.
"""

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def philox(counter: tuple[Tensor, ...], key: tuple[int, int]) -> tuple[Tensor, ...]:
    """Map four int64 tensors below 2³², with a key of two such numbers, to four tensors of random words.

    The operands are 32-bit numbers in 64-bit registers; products wrap around as in unsigned arithmetic, and masking
    after each shift removes the sign.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((p1 >> 32) & _MASK) ^ c1 ^ k0,
            p1 & _MASK,
            ((p0 >> 32) & _MASK) ^ c3 ^ k1,
            p0 & _MASK,
        )
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def uniform(n: int, seed: int, epoch: Tensor | int, sample: Tensor, view: Tensor | int) -> Tensor:
    """Draw `(samples, n)` float32 numbers strictly between 0 and 1.

    Args:
        n: how many numbers per sample.
        seed: of the run, 0 to 2⁶⁴ − 1.
        epoch: a number or a scalar int64 tensor.
        sample: `(samples,)` int64 sample numbers.
        view: the number of the view, or `(samples,)` int64 numbers.

    Example:
        >>> rows = torch.tensor([5, 9])
        >>> both, alone = uniform(3, 0, 1, rows, 0), uniform(3, 0, 1, rows[1:], 0)
        >>> torch.equal(both[1:], alone)
        True
    """
    blocks = torch.arange((n + 3) // 4, device=sample.device)
    block, number = torch.broadcast_tensors(blocks, sample[:, None])
    zero = torch.zeros_like(block)
    view = view[:, None] if isinstance(view, Tensor) else view
    # Philox multiplies the first and third word, so these must be 64 bits wide. A compiler may keep the other two,
    # which come from `arange`, in 32 bits.
    counter = (number, block, zero + epoch, zero + view)
    words = torch.stack(philox(counter, (seed & _MASK, seed >> 32 & _MASK)), dim=-1).flatten(1)[:, :n]
    # 23 bits plus one half: float32 keeps the largest of these numbers below 1.
    return ((words >> 9).float() + 0.5) * 2**-23
