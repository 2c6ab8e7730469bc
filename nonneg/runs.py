"""Run folders: what `nonneg train` and `nonneg convert` write, and what kind of thing a path is."""

import hashlib
import json
import os
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from nonneg.durable import (
    check_claimable,
    claim_folder,
    folder_lock,
    is_leftover,
    made_by,
    os_errors_as_input_errors,
    read_bounded,
    read_errors_as_input_errors,
    read_object,
    read_object_or_nothing,
    remove,
    sealed,
    unsealed,
    write_atomically,
)
from nonneg.errors import InputError
from nonneg.tables import split_name

if TYPE_CHECKING:
    import torch

Kind = Literal["trained run", "conversion", "features", "index", "model", "estimator", "vectors"]

LOG, ENVIRONMENT, MODEL = "log.jsonl", "environment.json", "model"
_CONFIG_DIGEST = "config_sha256"
_MODEL_CONFIG = "config.json"  # the file of a model that is written last
_COMMANDS: dict[str, str] = {"trained run": "nonneg train", "conversion": "nonneg convert"}
_FORMATS: dict[str, Kind] = {"nonneg.features": "features", "nonneg.index": "index"}


@dataclass(frozen=True)
class RunFormat:
    """What the run folders of one command have in common.

    Attributes:
        made_by: the command, as `environment.json` records it.
        config: the name of the configuration file; its suffix is .toml or .json.
        files: further files and folders that a run may hold, besides the config, the log and the model.
    """

    made_by: str
    config: str
    files: frozenset[str]

    @property
    def holds(self) -> set[str]:
        """Names that a run folder may hold, besides `environment.json`."""
        return {self.config, LOG, MODEL, *self.files}

    def is_unfinished(self, folder: Path) -> bool:
        """Whether the folder holds a run of this format without a model."""
        with read_errors_as_input_errors(folder):
            is_started = (folder / self.config).is_file() and made_by(folder / ENVIRONMENT) == self.made_by
            return is_started and not (folder / MODEL / _MODEL_CONFIG).is_file()

    def is_empty(self, folder: Path) -> bool:
        """Whether a run was interrupted here before it wrote anything but its environment."""
        is_ours = made_by(folder / ENVIRONMENT) == self.made_by
        return is_ours and not any((folder / name).exists() for name in self.holds)


class RunFolder:
    """A folder that one process at a time writes a run into; closing it releases the lock.

    Opening it changes nothing. `claim` starts the run, or continues the unfinished one that the folder holds.

    Args:
        folder: where the run is written.
        format: of the command that writes it.
        config: the content of the configuration file.
        overwrite: replace a run that the folder holds already.

    Attributes:
        resumes: whether the folder holds the same run, unfinished.

    Raises:
        InputError: if another process writes there, or if the folder holds other files, a finished run, or an
            unfinished run with another config.

    Example:
        >>> import tempfile
        >>> import torch
        >>> ours = RunFormat("nonneg example", "config.json", frozenset())
        >>> folder = Path(tempfile.mkdtemp()) / "run"
        >>> with RunFolder(folder, ours, b'{"lr": 0.1}') as run:
        ...     run.claim(torch.device("cpu"))
        ...     run.log({"step": 1})
        >>> RunFolder(folder, ours, b'{"lr": 0.1}').resumes
        True
        >>> RunFolder(folder, ours, b'{"lr": 0.2}')  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        nonneg.errors.InputError: ... holds an unfinished run with lr 0.1, not 0.2; ...
    """

    def __init__(self, folder: Path, format: RunFormat, config: bytes, overwrite: bool = False) -> None:
        self.folder, self.format, self.config = folder, format, config
        with ExitStack() as stack:
            stack.enter_context(folder_lock(folder))
            self._locked = folder.stat()
            self._without = ", without --overwrite," if overwrite else ""
            self.resumes = not overwrite and format.is_unfinished(folder)
            self._overwrite = overwrite or format.is_empty(folder)
            if self.resumes:
                self._check_same_config()
            else:
                check_claimable(folder, ENVIRONMENT, format.made_by, format.holds, self._overwrite)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, KeyboardInterrupt) and self.format.is_unfinished(self.folder):
            error.add_note(f"run the same command again{self._without} to resume")
        self._stack.__exit__(kind, error, traceback)

    def claim(self, device: "torch.device") -> None:
        """Remove an earlier run and write the environment and the config; or prepare the unfinished run to resume."""
        from nonneg.environment import environment  # imports torch, which reading a run does not need

        with os_errors_as_input_errors(self.folder):
            for leftover in sorted(filter(is_leftover, self.folder.rglob("*")), reverse=True):  # what is inside first
                remove(leftover)
        if self.resumes:
            return
        digest = hashlib.sha256(self.config).hexdigest()
        content = {"made_by": self.format.made_by, **environment(device), _CONFIG_DIGEST: digest}
        claim_folder(self.folder, ENVIRONMENT, content, self.format.holds, self._overwrite)
        write_atomically(self.folder / self.format.config, self.config)

    def _check_same_config(self) -> None:
        path = self.folder / self.format.config
        parse = tomllib.loads if path.suffix == ".toml" else json.loads
        started = read_object(path, "; pass --overwrite to start over", parse)
        for name, was, now in _differences(started, parse(self.config.decode())):
            raise InputError(
                f"{self.folder} holds an unfinished run with {name} {was!r}, not {now!r}; continue with the same"
                " settings, choose another folder, or pass --overwrite to start over"
            )

    def check_owned(self) -> None:
        """Raise an error if the folder was removed, and perhaps made again, since this process locked it."""
        with os_errors_as_input_errors(self.folder):
            if not os.path.samestat(self._locked, self.folder.stat()):
                raise InputError(f"{self.folder} was replaced by another process during the run; choose another folder")

    @property
    def model(self) -> Path:
        """The folder of the run's model."""
        return self.folder / MODEL

    def log(self, line: dict[str, Any]) -> None:
        """Append a line to the log."""
        self.check_owned()
        with os_errors_as_input_errors(self.folder / LOG), (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(sealed(line)) + "\n")

    def truncate_log(self, step: int) -> None:
        """Keep the lines up to `step`: the steps after the checkpoint are repeated. Damaged ones cause a warning."""
        if (self.folder / LOG).exists():
            lines = [
                line
                for line in _lines(self.folder / LOG, skip_damaged=True)
                if type(own := line.get("step", 0)) is int and own <= step
            ]
            write_atomically(self.folder / LOG, "".join(json.dumps(sealed(line)) + "\n" for line in lines).encode())

    def record_resumption(self, step: int, device: "torch.device") -> None:
        """Add to the environment that the run resumed at `step`, perhaps on another machine."""
        from nonneg.environment import environment

        started = read_environment(self.folder)
        resumed = [*started.get("resumed", []), {"step": step, **environment(device)}]
        write_atomically(
            self.folder / ENVIRONMENT, json.dumps(sealed({**started, "resumed": resumed}), indent=1).encode()
        )


def _differences(a: Mapping[str, Any], b: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The settings that differ, by their dotted names; a missing one is None."""
    for name in dict.fromkeys((*b, *a)):
        was, now = a.get(name), b.get(name)
        if isinstance(was, dict) and isinstance(now, dict):
            yield from _differences(was, now, f"{prefix}{name}.")
        elif was != now:
            yield f"{prefix}{name}", was, now


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's log."""
    return _lines(folder / LOG, skip_damaged=False)


def _lines(path: Path, skip_damaged: bool) -> list[dict[str, Any]]:
    text = read_bounded(path).decode("utf-8", "replace")
    lines = []
    for number, line in enumerate(text.split("\n")[:-1], 1):  # a line that is still being written has no end
        try:
            lines.append(unsealed(dict(json.loads(line))))
        except (ValueError, TypeError, RecursionError) as error:
            found = f"{path}, line {number}, is damaged"
            if not skip_damaged:
                raise InputError(f"{found}, expected a JSON object with an intact checksum") from error
            warnings.warn(f"{found} and left out", UserWarning, stacklevel=4)
    return lines


def read_environment(folder: Path) -> dict[str, Any]:
    """The environment that a run was made in."""
    return unsealed(read_object(folder / ENVIRONMENT), folder / ENVIRONMENT)


def verify_records(folder: Path) -> None:
    """Verify a run's environment, config and log, as far as they exist.

    Raises:
        InputError: naming the file that is not what was written.
    """
    with read_errors_as_input_errors(folder):
        digest = read_environment(folder).get(_CONFIG_DIGEST) if (folder / ENVIRONMENT).exists() else None
        for path in folder.glob("config.*"):
            if digest not in (None, hashlib.sha256(path.read_bytes()).hexdigest()):
                raise InputError(f"{path} was changed since the run began (SHA-256 differs)")
        if (folder / LOG).exists():
            read_log(folder)


def kind_of(path: str | Path) -> Kind | None:
    """What a path holds, judged by the names and headers of its files; their content is not verified.

    Args:
        path: of a folder, or of a file of vectors, perhaps with a name: `news.npz:title`.

    Returns:
        - `"trained run"`: a run of `nonneg train`, finished or not
        - `"conversion"`: a run of `nonneg convert`, finished or not
        - `"features"`: a folder that `Features.save` wrote
        - `"index"`: a search index
        - `"model"`: the folder of a trained model, such as `runs/x/model` of a trained run
        - `"estimator"`: the folder of a fitted `NonNegativeEmbedding`, `NonNegativePair` or `NonNegativeClassifier`,
          such as `runs/x/model` of a conversion
        - `"vectors"`: a file; whether it holds vectors shows when `nonneg.tables.open_vectors` opens it
        - `None`: nothing of these

    Example:
        >>> kind_of("there/is/no/such/folder") is None
        True
    """
    folder = Path(path)
    with read_errors_as_input_errors(folder):
        if not folder.is_dir():
            file = split_name(str(path))[0]
            return "vectors" if file.exists() and not file.is_dir() else None
        if (folder / "config.toml").is_file():
            return "trained run"
        if made_by(folder / ENVIRONMENT) == "nonneg convert" or _is_estimator(folder / MODEL):
            return "conversion"
        if _is_estimator(folder):
            return "estimator"
        if "encoder" in read_object_or_nothing(folder / _MODEL_CONFIG):
            return "model"
    return _FORMATS.get(str(read_object_or_nothing(folder / "meta.json").get("format")))


def check_finished(folder: Path) -> None:
    """Raise an error if a folder holds an unfinished run."""
    command = _COMMANDS.get(kind_of(folder) or "")
    if command is not None and not (folder / MODEL / _MODEL_CONFIG).is_file():
        raise InputError(f"{folder} is an unfinished run of {command}, expected a finished one; run it again to resume")


def _is_estimator(folder: Path) -> bool:
    descriptions = (read_object_or_nothing(folder / name) for name in (_MODEL_CONFIG, "classifier.json"))
    return any(str(description.get("nonneg")).startswith("NonNegative") for description in descriptions)
