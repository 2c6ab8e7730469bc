"""Run by torchrun: compare one process that has the joint batch with two processes that have half of it each.

Every rank holds the same small network. It computes the loss of its half with `group` and lets DDP average the
gradients; it also computes the loss of the joint batch alone. Values and gradients must agree.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from nonneg import losses
from nonneg.rectify import NonNegative

PAIRS = 6
QUEUE = torch.rand(10, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)  # shared by all processes
MASK = torch.tensor([0.0, 1, 1, 1, 1, 1, 1, 1], dtype=torch.float64)  # makes the first feature constant


class TwoViews(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.net(x1), self.net(x2)


def network() -> TwoViews:
    torch.manual_seed(0)
    return TwoViews(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 8), NonNegative("rep_relu")).double())


def sup_con(z1, z2, labels, group, chunk_rows=None):
    return losses.supervised.sup_con(torch.cat((z1, z2)), labels.repeat(2).short(), group=group, chunk_rows=chunk_rows)


LOSSES = {
    "info_nce": lambda z1, z2, y, g: losses.info_nce(z1, z2, group=g),
    "info_nce in chunks": lambda z1, z2, y, g: losses.info_nce(z1, z2, group=g, chunk_rows=5),
    "info_nce with a queue": lambda z1, z2, y, g: losses.info_nce(z1, z2, group=g, negatives=QUEUE),
    "info_nce with a queue in chunks": lambda z1, z2, y, g: losses.info_nce(
        z1, z2, group=g, negatives=QUEUE, chunk_rows=5
    ),
    "barlow_twins": lambda z1, z2, y, g: losses.barlow_twins(z1, z2, group=g),
    "barlow_twins with a constant feature": lambda z1, z2, y, g: losses.barlow_twins(
        z1 * MASK + 0.1 * (1 - MASK), z2 * MASK, group=g
    ),
    "vicreg": lambda z1, z2, y, g: losses.vicreg(z1, z2, group=g),
    "spectral": lambda z1, z2, y, g: losses.spectral(z1, z2, group=g),
    "multimodal.info_nce": lambda z1, z2, y, g: losses.multimodal.info_nce(z1, z2, group=g),
    "multimodal.spectral": lambda z1, z2, y, g: losses.multimodal.spectral(z1, z2, group=g),
    "multimodal.info_nce with groups": lambda z1, z2, y, g: losses.multimodal.info_nce(z1, z2, group=g, related=y),
    "multimodal.spectral with groups of int16": lambda z1, z2, y, g: losses.multimodal.spectral(z1, z2, g, y.short()),
    "sup_con": sup_con,
    "sup_con in chunks": lambda z1, z2, y, g: sup_con(z1, z2, y, g, chunk_rows=5),
}


def main() -> None:
    dist.init_process_group("gloo")
    rank, processes = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(1)
    x1, x2 = torch.randn(2, PAIRS * processes, 5, generator=generator, dtype=torch.float64)
    # Classes of different sizes on the two processes, one with a member on one of them only, and unlabelled rows.
    labels = torch.randint(0, 5, (PAIRS * processes,), generator=generator)
    labels[0] = 99
    labels[1::4] = -1
    mine = slice(rank * PAIRS, (rank + 1) * PAIRS)
    worst = 0.0
    for name, loss in LOSSES.items():
        joint = network()
        expected = loss(*joint(x1, x2), labels, None)
        expected.backward()

        shared = DistributedDataParallel(network())
        value = loss(*shared(x1[mine], x2[mine]), labels[mine], dist.group.WORLD)
        value.backward()

        pairs = zip(shared.module.parameters(), joint.parameters(), strict=True)
        error = max(float((p.grad - q.grad).abs().max()) for p, q in pairs)
        error = max(error, abs(float(value.detach()) - float(expected.detach())))
        print(f"rank {rank}: {name}: {error:.1e}", flush=True)
        worst = max(worst, error)
    dist.barrier()
    sys.stdout.flush()
    os._exit(0 if worst < 1e-8 else 1)  # gloo's threads sometimes abort a regular interpreter exit


if __name__ == "__main__":
    main()
