"""A run's folder: what was asked for, what happened, what came out."""

import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from nonneg.durable import claim_folder, said_plainly, write_bytes
from nonneg.training.config import TrainConfig, as_toml

CONFIG, LOG, ENVIRONMENT, MODEL = "config.toml", "log.jsonl", "environment.json", "model"


class RunFolder:
    """Where a training run writes."""

    def __init__(self, folder: Path, config: TrainConfig, overwrite: bool) -> None:
        made = {"made_by": "nonneg train", **environment()}
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


def environment() -> dict[str, Any]:
    """What the numbers of a run depend on besides its config."""
    packages = ("nonneg", "torch", "lightning-fabric", "numpy", "scikit-learn")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in packages},
        "commit": _commit(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


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
