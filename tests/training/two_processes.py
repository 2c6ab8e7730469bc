"""Run by torchrun with two processes, or alone: trains and saves the run into the folder given."""

import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import torch.distributed as dist
from torch import nn

from nonneg.models import ENCODERS
from nonneg.training import load_recipe, train


class Plain(nn.Module):
    """Without batch norm, whose statistics are of a process's own share on the CPU."""

    width = 32

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 32))

    def forward(self, x):
        return self.layers(x)


RUNS = {
    "sgd": {"optimiser": "sgd", "lr": 0.3},
    "lars": {"optimiser": "lars", "lr": 0.4},
    "sup_con": {"loss": "sup_con"},
    "spectral": {"loss": "spectral", "lr": 0.001, "optimiser": "sgd"},
    "cross_entropy": {"loss": "cross_entropy", "rectify_weight": True},
}


def main(out: Path) -> None:
    ENCODERS["plain"] = lambda channels, stem: Plain()
    config = replace(
        load_recipe("digits"),
        encoder="plain",
        epochs=4,  # of 5 steps each
        warmup_epochs=1,
        precision="64-true",
        accelerator="cpu",
        features=64,
        projector_width=24,
        checkpoint_steps=7,
    )
    for name, change in RUNS.items():
        train(replace(config, **change), out / name, progress=False)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
    if dist.is_initialized():
        dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads sometimes abort an orderly end of the interpreter
