"""Run by torchrun with two processes, or alone: trains and saves runs into the given folder."""

import os
import resource
import signal
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from lightning_fabric.loggers import CSVLogger
from torch import nn

from nonneg.errors import InputError
from nonneg.modalities.images import open_source
from nonneg.training import load_recipe, train


class Plain(nn.Module):
    """Without batch norm, whose statistics on the CPU cover only the process's own share of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 32))

    def forward(self, x):
        return self.layers(x)


class Partly(Plain):
    """With an unused parameter, as encoders of other libraries have."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(32, 10)


class Stopping(CSVLogger):
    """Sends SIGTERM, as SLURM does, to the process that logs (the first) after the first epoch."""

    def log_metrics(self, metrics, step=None):
        if step == 1:
            os.kill(os.getpid(), signal.SIGTERM)


RUNS = {
    "sgd": {"optimiser": "sgd", "lr": 0.3},
    "lars": {"optimiser": "lars", "lr": 0.4},
    "share": {
        "standardise": True,
        "first_share": 0.5,
        "share": 0.3,
        "first_dense_weight": 0.5,
        "learn_temperature": True,
        "optimiser": "sgd",
        "lr": 0.03,
    },
    "sup_con": {"loss": "sup_con"},
    "spectral": {"loss": "spectral", "lr": 0.001, "optimiser": "sgd"},
    "barlow_twins": {"loss": "barlow_twins", "lr": 0.001},
    "vicreg": {"loss": "vicreg", "lr": 0.001},
    "cross_entropy": {"loss": "cross_entropy", "rectify_weight": True},
}


def main(out: Path) -> None:
    config = replace(
        load_recipe("digits"),
        epochs=4,  # of 5 steps each
        warmup_epochs=1,
        precision="64-true",
        accelerator="cpu",
        features=64,
        projector_width=24,
        checkpoint_steps=7,
    )
    for name, change in RUNS.items():
        torch.manual_seed(0)
        encoder = Partly() if name in ("sgd", "cross_entropy") else Plain()
        source = partly_labelled() if name == "sgd" else None
        train(replace(config, **change), out / name, source=source, encoder=encoder, progress=False)
    stop_on_a_full_disk(replace(config, epochs=8, checkpoint_steps=1000), out)


def partly_labelled():
    """Digits of which a third has no label, so that the shares of a batch have different numbers of labels."""
    source = open_source("digits")
    return replace(source, labels=np.where(np.random.default_rng(0).random(len(source)) < 1 / 3, -1, source.labels))


def stop_on_a_full_disk(config, out: Path) -> None:
    """Write the error of each process into a file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    try:
        train(config, out / "stopped", encoder=Plain(), progress=False, loggers=[Stopping(out / "csv")])
    except InputError as error:
        (out / f"error-{os.environ.get('RANK', '0')}").write_text(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
    if dist.is_initialized():
        dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads sometimes abort a normal exit of the interpreter
