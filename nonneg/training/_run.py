"""A run's folder: what was asked for, what happened, what came out."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import torch

from nonneg.durable import (
    TEMPORARY_PREFIX,
    claim_folder,
    lock_folder,
    made_by,
    os_errors_as_input_errors,
    read_errors_as_input_errors,
    write_atomically,
)
from nonneg.environment import environment
from nonneg.errors import InputError
from nonneg.training._checkpoint import Checkpoints
from nonneg.training.config import TrainConfig, as_toml, load_recipe

CONFIG, LOG, ENVIRONMENT, MODEL, CHECKPOINTS = "config.toml", "log.jsonl", "environment.json", "model", "checkpoints"
BROKEN, BOARD = "broken.json", "tensorboard"
_MAKER = "nonneg train"


class RunFolder:
    """Where a training run writes, and nobody else until it is closed. The same run, unfinished, is taken up again."""

    def __init__(self, folder: Path, config: TrainConfig, overwrite: bool, device: torch.device) -> None:
        self.folder = folder
        self.checkpoints = Checkpoints(folder / CHECKPOINTS)
        content = as_toml(config).encode()
        self._lock: int | None = self._locked()
        try:
            self.resumes = not overwrite and _is_unfinished(folder)
            if self.resumes:
                _refuse_another(folder, config)
                self._sweep()
            else:
                made = {"made_by": _MAKER, **environment(device)}
                holds = {CONFIG, LOG, MODEL, CHECKPOINTS, BROKEN, BOARD}
                claim_folder(folder, ENVIRONMENT, made, holds, overwrite or _is_barely_begun(folder))
                write_atomically(folder / CONFIG, content)
        except BaseException:
            self.__exit__()
            raise

    @classmethod
    def of_another_process(cls, folder: Path) -> "RunFolder":
        """The folder that the first process has opened; this one reads in it."""
        self = cls.__new__(cls)
        self.folder, self.checkpoints, self._lock = folder, Checkpoints(folder / CHECKPOINTS), None
        self.resumes = False
        return self

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _locked(self) -> int | None:
        with os_errors_as_input_errors(self.folder):
            if self.folder.exists() and not self.folder.is_dir():
                return None  # refused in a moment, by claiming it
            self.folder.mkdir(parents=True, exist_ok=True)
        return lock_folder(self.folder, "trained into")

    def _sweep(self) -> None:
        """What writes that were killed have left."""
        with os_errors_as_input_errors(self.folder):
            for place in (self.folder, self.folder / CHECKPOINTS, self.folder / MODEL):
                for leftover in place.glob(f"{TEMPORARY_PREFIX}*"):
                    leftover.unlink()

    @property
    def model(self) -> Path:
        return self.folder / MODEL

    def log(self, line: dict[str, Any]) -> None:
        """Append a line to the log; what was logged before stays readable, whatever happens."""
        with os_errors_as_input_errors(self.folder / LOG), (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def keep_log(self, epochs: int) -> None:
        """Only the first epochs: those after the checkpoint are trained again."""
        if (self.folder / LOG).exists():
            whole = _lines(self.folder / LOG, skip_damaged=True)
            lines = [json.dumps(line) + "\n" for line in whole if line["epoch"] <= epochs]
            write_atomically(self.folder / LOG, "".join(lines).encode())

    def record_resumption(self, step: int, device: torch.device) -> None:
        """Add to the environment where the run went on from `step`: it may be another machine."""
        made = read_environment(self.folder)
        again = [*made.get("resumed", []), {"step": step, **environment(device)}]
        write_atomically(self.folder / ENVIRONMENT, json.dumps({**made, "resumed": again}, indent=1).encode())

    def record_broken(self, names: tuple[str, ...]) -> None:
        """Which samples were left out because they cannot be read."""
        if names:
            write_atomically(self.folder / BROKEN, json.dumps(names, indent=1).encode())


def _is_unfinished(folder: Path) -> bool:
    with os_errors_as_input_errors(folder, "read"):
        begun = (folder / CONFIG).is_file() and made_by(folder / ENVIRONMENT) == _MAKER
        return begun and not (folder / MODEL / "config.json").is_file()  # the last file of a model that is written


def _is_barely_begun(folder: Path) -> bool:
    """Claimed, then killed before its config was written: nothing is lost with it."""
    is_ours = made_by(folder / ENVIRONMENT) == _MAKER
    return is_ours and not any((folder / name).exists() for name in (CONFIG, LOG, MODEL, CHECKPOINTS))


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
    return _lines(folder / LOG, skip_damaged=False)


def _lines(path: Path, skip_damaged: bool) -> list[dict[str, Any]]:
    with read_errors_as_input_errors(path):
        text = path.read_bytes().decode("utf-8", "replace")
    lines = []
    for number, line in enumerate(text.split("\n")[:-1], 1):  # what follows the last newline is half a line
        try:
            lines.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            if not skip_damaged:
                raise InputError(f"{path}, line {number}, is damaged, expected a JSON object") from error
    return lines


def read_environment(folder: Path) -> dict[str, Any]:
    """The environment a run was made in."""
    path = folder / ENVIRONMENT
    try:
        with read_errors_as_input_errors(path):
            return dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged, expected a JSON object") from error
