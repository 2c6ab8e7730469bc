"""A run's folder: what was asked for, what happened, what came out."""

import json
import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from nonneg.durable import said_plainly, write_bytes
from nonneg.errors import InputError
from nonneg.training.config import TrainConfig, as_toml

CONFIG, LOG, ENVIRONMENT, MODEL = "config.toml", "log.jsonl", "environment.json", "model"


def new_folder(folder: Path, marker: str, overwrite: bool) -> Path:
    """An empty folder to write results into.

    One that holds earlier results (it has the file `marker`) is cleared if `overwrite` says so;
    one that holds anything else is never touched.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, expected a folder for the results or a new name")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / marker).is_file():
            raise InputError(f"{folder} holds other files, expected an empty folder or a new name")
        if not overwrite:
            raise InputError(f"{folder} exists already; choose another folder or pass --overwrite to replace it")
        with said_plainly(folder):
            shutil.rmtree(folder)
    with said_plainly(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "permission denied")
    return folder


class RunFolder:
    """Where a training run writes."""

    def __init__(self, folder: Path, config: TrainConfig, overwrite: bool) -> None:
        self.folder = new_folder(folder, CONFIG, overwrite)
        write_bytes(folder / CONFIG, as_toml(config).encode())
        write_bytes(folder / ENVIRONMENT, json.dumps(environment(), indent=1).encode())

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
