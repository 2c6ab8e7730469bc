"""Run by torchrun with two processes, or alone: trains and saves the run into the folder given."""

import os
import resource
import signal
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import torch.distributed as dist
from lightning_fabric.loggers import CSVLogger
from torch import nn

from nonneg.errors import InputError
from nonneg.modalities.images import ENCODERS
from nonneg.training import load_recipe, train


class Plain(nn.Module):
    """Without batch norm, whose statistics are of a process's own share on the CPU."""

    width = 32

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 32))

    def forward(self, x):
        return self.layers(x)


class Partly(Plain):
    """With a parameter that nothing comes from, as backbones of other libraries have."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(32, 10)


class Stopping(CSVLogger):
    """Sends the signal that SLURM sends to the process that logs, which is the first, after the first epoch."""

    def log_metrics(self, metrics, step=None):
        if step == 1:
            os.kill(os.getpid(), signal.SIGTERM)


RUNS = {
    "sgd": {"optimiser": "sgd", "lr": 0.3},
    "lars": {"optimiser": "lars", "lr": 0.4},
    "sup_con": {"loss": "sup_con"},
    "spectral": {"loss": "spectral", "lr": 0.001, "optimiser": "sgd"},
    "cross_entropy": {"loss": "cross_entropy", "rectify_weight": True},
    "partly_used": {"encoder": "other:partly"},
}


def main(out: Path) -> None:
    ENCODERS["plain"] = lambda channels, stem: Plain()
    ENCODERS["other:partly"] = lambda channels, stem: Partly()
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
    stop_on_a_full_disk(replace(config, epochs=8, checkpoint_steps=1000), out)


def stop_on_a_full_disk(config, out: Path) -> None:
    """Leaves what each process says."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    try:
        train(config, out / "stopped", progress=False, loggers=[Stopping(out / "csv")])
    except InputError as error:
        (out / f"said-{os.environ.get('RANK', '0')}").write_text(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
    if dist.is_initialized():
        dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads sometimes abort an orderly end of the interpreter
