"""Checkpoints: everything a run needs to resume as if it had never stopped.

Each is one safetensors file: tensors and a header of strings, nothing that could run code. The header holds a digest
of the tensors, by which damaged files are recognised.
"""

import hashlib
import json
import struct
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.optim import Optimizer

from nonneg.durable import atomic_writer, os_errors_as_input_errors, read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import one_line

KEPT = 2
_FORMAT = "1"
_TYPES = {  # the names that safetensors uses
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}


class _DamagedError(InputError):
    """The content of a checkpoint is not what was written; the previous checkpoint may be intact."""


@dataclass(frozen=True)
class Checkpoint:
    """The number of updates done, a fingerprint of the training data, and tensors by name."""

    step: int
    data: str
    tensors: Mapping[str, Tensor]


class Checkpoints:
    """The newest `KEPT` checkpoints of a run, written while training continues."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._damaged: list[Path] = []
        self._writing: threading.Thread | None = None
        self._failure: BaseException | None = None

    def save(self, checkpoint: Checkpoint, wait_for_copies: Callable[[], None] = lambda: None) -> None:
        """Start writing a checkpoint in a thread, after the previous one is written.

        Args:
            checkpoint: what to save; nobody else may change its tensors.
            wait_for_copies: called in the thread before the tensors are read; returns when their content is complete.
        """
        self.wait()
        for name, tensor in checkpoint.tensors.items():
            if tensor.dtype not in _TYPES:
                raise InputError(f"{name} has type {tensor.dtype}, which a checkpoint cannot hold")
        self._writing = threading.Thread(target=self._write, args=(checkpoint, wait_for_copies))
        self._writing.start()

    def wait(self) -> None:
        """Wait until the last checkpoint is on disk; raise an error if it could not be written."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _write(self, checkpoint: Checkpoint, wait_for_copies: Callable[[], None]) -> None:
        try:
            with os_errors_as_input_errors(self.folder):
                self.folder.mkdir(exist_ok=True)
            wait_for_copies()
            tensors = {name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()}
            header = {
                "format": _FORMAT,
                "step": str(checkpoint.step),
                "data": checkpoint.data,
                "sha256": _digest(tensors),
            }
            path = self._path(checkpoint.step)
            with atomic_writer(path) as file:
                for piece in _file_content(tensors, header):
                    file.write(piece)
            # Damaged checkpoints are kept until a newer one is complete.
            for damaged in set(self._damaged) - {path}:
                damaged.unlink(missing_ok=True)
            self._damaged = []
            self.remove_old()
        except BaseException as failure:  # raised by `wait`, not in this thread
            self._failure = failure

    def remove_old(self) -> None:
        """Remove all but the newest `KEPT` checkpoints."""
        for old in self._paths()[KEPT:]:
            old.unlink(missing_ok=True)

    def newest(self) -> Checkpoint | None:
        """Return the newest intact checkpoint, or None if none was ever written.

        Damaged checkpoints are skipped with a warning, and removed once the next one is written. A checkpoint that
        cannot be read, or that another version of nonneg wrote, may be intact: it raises an error.
        """
        damaged: dict[Path, str] = {}
        for path in self._paths():
            try:
                found = _read_checkpoint(path)
            except _DamagedError as error:
                damaged[path] = str(error)
                continue
            for sentence in damaged.values():
                warnings.warn(f"{sentence}; resuming from the previous checkpoint", UserWarning, stacklevel=2)
            self._damaged = list(damaged)
            return found
        for sentence in damaged.values():
            raise InputError(f"{sentence}, and no earlier checkpoint is intact; pass --overwrite to start over")
        return None

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}.safetensors"

    def _paths(self) -> list[Path]:
        """Return the checkpoint files, newest first."""
        with read_errors_as_input_errors(self.folder):
            try:  # unlike iterdir, glob treats an unreadable folder as empty
                found = [path for path in self.folder.iterdir() if path.match("step-*.safetensors")]
            except FileNotFoundError:
                return []
        return sorted(found, reverse=True)


def _read_checkpoint(path: Path) -> Checkpoint:
    try:
        # Opened by Python first, for the system's error message if that fails.
        with read_errors_as_input_errors(path), path.open("rb"), safe_open(path, "pt") as file:
            header = file.metadata() or {}
            if header["format"] != _FORMAT:
                raise InputError(f"{path} has format {header['format']!r}, expected {_FORMAT!r}")
            names = file.keys()
            tensors = {name: file.get_tensor(name) for name in names}
        step, data, digest = int(header["step"]), header["data"], header["sha256"]
    except (SafetensorError, KeyError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise _DamagedError(f"checkpoint {path} is damaged: {one_line(error)}") from error
    if digest != _digest(tensors) or path.stem != f"step-{step:09d}":
        raise _DamagedError(f"checkpoint {path} is damaged: its content is not what was written")
    return Checkpoint(step, data, tensors)


def _file_content(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """Yield the content of a safetensors file, piece by piece.

    The library builds the whole file in memory and holds Python's global lock meanwhile, which would block the thread
    that feeds a GPU; or it writes a file that is neither flushed to disk nor readable by other users.
    """
    # Wide types first, so that each tensor is aligned for its type.
    ordered = sorted(tensors.items(), key=lambda entry: (-entry[1].element_size(), entry[0]))
    ends = list(accumulate(tensor.nbytes for _, tensor in ordered))
    entries: dict[str, Any] = {"__metadata__": dict(header)}
    for (name, tensor), end in zip(ordered, ends, strict=True):
        place = [end - tensor.nbytes, end]
        entries[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": place}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for _, tensor in ordered:
        yield _bytes_of(tensor)


def _bytes_of(tensor: Tensor) -> memoryview:
    return memoryview(tensor.view(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(_bytes_of(tensor.contiguous()))
    return digest.hexdigest()


def optimiser_tensors(optimiser: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Yield the optimiser's state, parameter by parameter, without its settings, which are in the config."""
    for number, state in optimiser.state_dict()["state"].items():
        for name, value in state.items():
            yield f"{number}.{name}", value if isinstance(value, Tensor) else torch.tensor(value)


def restore_optimiser(optimiser: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore what `optimiser_tensors` yielded; raise a ValueError if it belongs to another model."""
    state: dict[int, dict[str, Any]] = {}
    for key, tensor in tensors.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = tensor
    groups = optimiser.state_dict()["param_groups"]
    lrs = [group["lr"] for group in optimiser.param_groups]
    optimiser.load_state_dict({"state": state, "param_groups": groups})
    for group, lr in zip(optimiser.param_groups, lrs, strict=True):
        group["lr"] = lr  # the same tensor as before, which a recorded step reads
        for p in group["params"]:
            for name, value in optimiser.state[p].items():
                if value.shape == p.shape:  # in the parameter's memory format, which fused steps require
                    optimiser.state[p][name] = torch.empty_like(p).copy_(value)
                elif value.dim():
                    raise ValueError(f"{name} has shape {tuple(value.shape)}, expected {tuple(p.shape)}")
