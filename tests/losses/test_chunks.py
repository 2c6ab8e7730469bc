"""Evaluation in chunks of rows gives the same numbers, in memory that grows linearly with the batch."""

import pytest
import torch

from benchmarks.memory import peak_bytes
from nonneg import losses

QUEUE = torch.rand(2000, 256, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(8192) % 100
LOSSES = {
    "info_nce": losses.info_nce,
    "info_nce with a queue": lambda a, b, **kw: losses.info_nce(a, b, negatives=QUEUE, **kw),
    "multimodal.info_nce": losses.multimodal.info_nce,
    "sup_con": lambda a, b, **kw: losses.supervised.sup_con(torch.cat((a, b)), LABELS[: 2 * len(a)], **kw),
}


def step(loss, pairs: int, chunk_rows: int | None):
    generator = torch.Generator().manual_seed(0)
    z1 = torch.randn(pairs, 256, generator=generator).relu_().requires_grad_()
    z2 = torch.randn(pairs, 256, generator=generator).relu_().requires_grad_()
    value = loss(z1, z2, chunk_rows=chunk_rows)
    value.backward()
    return value.detach(), z1.grad, z2.grad


@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradients_equal_those_without_chunks(name):
    plain, chunked = step(LOSSES[name], 1500, None), step(LOSSES[name], 1500, 300)
    for a, b in zip(plain, chunked, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5 * float(a.abs().max()))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "info_nce" else pytest.mark.slow) for name in LOSSES]
)
def test_peak_memory_is_at_most_an_eighth_of_that_without_chunks(name):
    plain = peak_bytes(lambda: step(LOSSES[name], 4096, None))
    chunked = peak_bytes(lambda: step(LOSSES[name], 4096, 128))
    assert chunked <= plain / 8, f"{chunked / 2**20:.0f} MiB against {plain / 2**20:.0f} MiB"


def test_peak_memory_grows_linearly_with_the_batch():
    small, large = (peak_bytes(lambda n=n: step(losses.info_nce, n, 128)) for n in (1024, 4096))
    assert large <= 4.2 * small


@pytest.mark.parametrize("loss", [losses.spectral, losses.multimodal.spectral])
def test_the_memory_of_spectral_grows_linearly_without_chunks(loss):
    def run(pairs: int) -> None:
        z1, z2 = (torch.rand(pairs, 256, requires_grad=True) for _ in range(2))
        loss(z1, z2).backward()

    small, large = (peak_bytes(lambda n=n: run(n)) for n in (1024, 4096))
    assert large <= 4.2 * small


def test_a_negative_number_of_rows_per_chunk_is_an_error():
    with pytest.raises(ValueError, match="chunk_rows is -1"):
        losses.info_nce(torch.eye(4), torch.eye(4), temperature=0.2, chunk_rows=-1)
