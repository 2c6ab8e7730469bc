"""A run's folder: what was asked for, what happened, what came out."""

import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from nonneg.durable import claim_folder, said_plainly, write_bytes
from nonneg.training.config import TrainConfig, as_toml

CONFIG, LOG, ENVIRONMENT, MODEL = "config.toml", "log.jsonl", "environment.json", "model"


class RunFolder:
    """Where a training run writes."""

    def __init__(self, folder: Path, config: TrainConfig, overwrite: bool, device: torch.device) -> None:
        made = {"made_by": "nonneg train", **environment(device)}
        self.folder = claim_folder(folder, ENVIRONMENT, made, {CONFIG, LOG, MODEL}, overwrite)
        write_bytes(folder / CONFIG, as_toml(config).encode())

    @property
    def model(self) -> Path:
        return self.folder / MODEL

    def log(self, line: dict[str, Any]) -> None:
        """Append a line to the log; what was logged before stays readable, whatever happens."""
        with said_plainly(self.folder / LOG), (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's log, one an epoch."""
    text = (folder / LOG).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def environment(device: torch.device) -> dict[str, Any]:
    """What the numbers of a run depend on besides its config."""
    packages = ("nonneg", "torch", "lightning-fabric", "numpy", "scikit-learn")
    program = Path(sys.argv[0]).name
    on_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else f"{platform.machine()} {device.type}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in packages},
        "commit": _commit(),
        "command": ["nonneg" if program == "__main__.py" else program, *sys.argv[1:]],
    }


def read_environment(folder: Path) -> dict[str, Any]:
    """The environment a run was made in."""
    return dict(json.loads((folder / ENVIRONMENT).read_bytes()))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def _commit() -> str:
    """The commit of the source tree this package runs from, if it is one."""
    here = Path(__file__).parents[2]
    if not (here / ".git").exists():
        return "unknown"
    command = ["git", "-C", str(here), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
