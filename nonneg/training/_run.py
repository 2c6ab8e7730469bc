"""A run's folder: what was asked for, what happened, what came out."""

import dataclasses
import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from nonneg.durable import claim_folder, made_by, said_plainly, write_bytes
from nonneg.errors import InputError
from nonneg.training._checkpoint import Checkpoints
from nonneg.training.config import TrainConfig, as_toml, load_recipe

CONFIG, LOG, ENVIRONMENT, MODEL, CHECKPOINTS = "config.toml", "log.jsonl", "environment.json", "model", "checkpoints"
BROKEN, BOARD = "broken.json", "tensorboard"
_MAKER = "nonneg train"


class RunFolder:
    """Where a training run writes. A folder with the same run unfinished is taken up again."""

    def __init__(self, folder: Path, config: TrainConfig, overwrite: bool, device: torch.device) -> None:
        self.folder = folder
        self.resumes = not overwrite and _is_unfinished(folder)
        if self.resumes:
            _refuse_another(folder, config)
        else:
            made = {"made_by": _MAKER, **environment(device)}
            holds = {CONFIG, LOG, MODEL, CHECKPOINTS, BROKEN, BOARD}
            claim_folder(folder, ENVIRONMENT, made, holds, overwrite)
            write_bytes(folder / CONFIG, as_toml(config).encode())
        self.checkpoints = Checkpoints(folder / CHECKPOINTS)

    @property
    def model(self) -> Path:
        return self.folder / MODEL

    def log(self, line: dict[str, Any]) -> None:
        """Append a line to the log; what was logged before stays readable, whatever happens."""
        with said_plainly(self.folder / LOG), (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def keep_log(self, epochs: int) -> None:
        """Only the first epochs: those after the checkpoint are trained again."""
        if (self.folder / LOG).exists():
            lines = [json.dumps(line) + "\n" for line in read_log(self.folder) if line["epoch"] <= epochs]
            write_bytes(self.folder / LOG, "".join(lines).encode())

    def record_resumption(self, step: int, device: torch.device) -> None:
        """Add to the environment where the run went on from `step`: it may be another machine."""
        made = read_environment(self.folder)
        again = [*made.get("resumed", []), {"step": step, **environment(device)}]
        write_bytes(self.folder / ENVIRONMENT, json.dumps({**made, "resumed": again}, indent=1).encode())

    def record_broken(self, names: tuple[str, ...]) -> None:
        """Which samples were left out because they cannot be read."""
        if names:
            write_bytes(self.folder / BROKEN, json.dumps(names, indent=1).encode())


def _is_unfinished(folder: Path) -> bool:
    with said_plainly(folder, "read"):
        begun = (folder / CONFIG).is_file() and made_by(folder / ENVIRONMENT) == _MAKER
        return begun and not (folder / MODEL).exists()


def _refuse_another(folder: Path, config: TrainConfig) -> None:
    """An unfinished run goes on only as it began."""
    begun = load_recipe(str(folder / CONFIG))
    for name, was, now in _differences(begun, config, ""):
        raise InputError(
            f"{folder} holds an unfinished run with {name} {was!r}, not {now!r}; go on with the same, choose another"
            " folder or pass --overwrite to start over"
        )


def _differences(a: Any, b: Any, prefix: str) -> list[tuple[str, Any, Any]]:
    found = []
    for item in dataclasses.fields(a):
        was, now = getattr(a, item.name), getattr(b, item.name)
        if dataclasses.is_dataclass(was):
            found += _differences(was, now, f"{prefix}{item.name}.")
        elif was != now:
            found.append((f"{prefix}{item.name}", was, now))
    return found


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
