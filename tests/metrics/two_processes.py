"""Run by torchrun: compare metrics accumulated over two processes with the pure functions on all data."""

import os
import sys

import torch
import torch.distributed as dist

from tests.metrics.accumulated import CASES, data, difference


def main() -> None:
    dist.init_process_group("gloo")
    rank, processes = dist.get_rank(), dist.get_world_size()
    z, labels = data()
    worst = 0.0
    for name, (build, pure) in CASES.items():
        metric = build()
        # The processes have different numbers of samples, in batches of 7.
        mine = torch.arange(len(z))[rank::processes][: 25 if rank else None]
        for rows in mine.split(7):
            metric.update(*((z[rows], labels[rows]) if name == "ClassConsistency" else (z[rows],)))
        seen = torch.cat([torch.arange(len(z))[0::processes], torch.arange(len(z))[1::processes][:25]])
        error = difference(metric.compute(), pure(z[seen], labels[seen]))
        print(f"rank {rank}: {name}: {error:.1e}", flush=True)
        worst = max(worst, error)
    dist.barrier()
    sys.stdout.flush()
    os._exit(0 if worst < 1e-9 else 1)  # gloo's threads sometimes abort a regular interpreter exit


if __name__ == "__main__":
    main()
