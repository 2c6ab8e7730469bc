"""The run folder of `nonneg train`."""

import json
from contextlib import ExitStack
from pathlib import Path

import torch

from nonneg import runs
from nonneg.durable import write_atomically
from nonneg.training._checkpoint import Checkpoints
from nonneg.training.config import TrainConfig, as_toml

CHECKPOINTS, BROKEN, BOARD = "checkpoints", "broken.json", "tensorboard"
FORMAT = runs.RunFormat("nonneg train", "config.toml", frozenset((CHECKPOINTS, BROKEN, BOARD)))


class RunFolder(runs.RunFolder):
    """A run folder with checkpoints; opening it claims it."""

    def __init__(self, folder: Path, config: TrainConfig, overwrite: bool, device: torch.device) -> None:
        super().__init__(folder, FORMAT, as_toml(config).encode(), overwrite)
        self.checkpoints = Checkpoints(folder / CHECKPOINTS)
        with ExitStack() as stack:
            stack.push(self)
            self.claim(device)
            stack.pop_all()

    @classmethod
    def of_another_process(cls, folder: Path) -> "RunFolder":
        """Open a folder that the first process has claimed, for reading."""
        self = cls.__new__(cls)
        self.folder, self.checkpoints, self.resumes = folder, Checkpoints(folder / CHECKPOINTS), False
        self._stack = ExitStack()
        return self

    def record_broken(self, names: tuple[str, ...]) -> None:
        """Write the names of the samples that were skipped because they cannot be read."""
        if names:
            write_atomically(self.folder / BROKEN, json.dumps(names, indent=1).encode())
