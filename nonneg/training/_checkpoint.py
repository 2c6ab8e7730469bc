"""Checkpoints: all that a run needs to go on as if it had never stopped.

One safetensors file each: tensors and a header of strings, nothing that could run code. The header
holds the digest of the tensors, so that a damaged file is known as such.
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

KEPT = 2
_FORMAT = "1"
_TYPES = {  # in the words of safetensors
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
    """Content that is not what was written: the checkpoint before may be whole."""


@dataclass(frozen=True)
class Checkpoint:
    """What was saved: the number of updates done, the data it was trained on, and tensors by name."""

    step: int
    data: str
    tensors: Mapping[str, Tensor]


class Checkpoints:
    """The checkpoints of a run, the newest `KEPT` of them. They are written while training goes on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._passed_over: list[Path] = []
        self._writing: threading.Thread | None = None
        self._failure: BaseException | None = None

    def save(self, checkpoint: Checkpoint, arrived: Callable[[], None] = lambda: None) -> None:
        """Begin to write; the tensors must be the caller's own copies. Waits for the one before.

        `arrived` is called, before they are read, where they are written: it returns when they hold what is to be
        saved.
        """
        self.wait()
        for name, tensor in checkpoint.tensors.items():
            if tensor.dtype not in _TYPES:
                raise InputError(f"{name} is of type {tensor.dtype}, which a checkpoint cannot hold")
        self._writing = threading.Thread(target=self._write, args=(checkpoint, arrived))
        self._writing.start()

    def wait(self) -> None:
        """Until the last one is on disk; says so if it could not be written."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _write(self, checkpoint: Checkpoint, arrived: Callable[[], None]) -> None:
        try:
            with os_errors_as_input_errors(self.folder):
                self.folder.mkdir(exist_ok=True)
            arrived()
            tensors = {name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()}
            header = {
                "format": _FORMAT,
                "step": str(checkpoint.step),
                "data": checkpoint.data,
                "sha256": _digest(tensors),
            }
            path = self._path(checkpoint.step)
            with atomic_writer(path) as file:
                for piece in _laid_out(tensors, header):
                    file.write(piece)
            # Only now are damaged ones of no use to anybody.
            for damaged in set(self._passed_over) - {path}:
                damaged.unlink(missing_ok=True)
            self._passed_over = []
            for old in self._paths()[KEPT:]:
                old.unlink(missing_ok=True)
        except BaseException as failure:  # raised where the run waits for it, not in this thread
            self._failure = failure

    def newest(self) -> Checkpoint | None:
        """The newest that is whole, None where none was ever written.

        Damaged ones are passed over with a warning, and removed once the next is written. One that cannot be read
        or that another nonneg wrote may well be whole, so it is refused.
        """
        damaged: dict[Path, str] = {}
        for path in self._paths():
            try:
                found = _read(path)
            except _DamagedError as error:
                damaged[path] = str(error)
                continue
            for sentence in damaged.values():
                warnings.warn(f"{sentence}; going back to the checkpoint before", UserWarning, stacklevel=2)
            self._passed_over = list(damaged)
            return found
        for sentence in damaged.values():
            raise InputError(f"{sentence}, and there is none before that is whole; pass --overwrite to start over")
        return None

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}.safetensors"

    def _paths(self) -> list[Path]:
        """Newest first."""
        with read_errors_as_input_errors(
            self.folder
        ):  # globbing would take a folder that cannot be read for an empty one
            try:
                found = [path for path in self.folder.iterdir() if path.match("step-*.safetensors")]
            except FileNotFoundError:
                return []
        return sorted(found, reverse=True)


def _read(path: Path) -> Checkpoint:
    try:
        # Opened first for the system's own words if that fails.
        with read_errors_as_input_errors(path), path.open("rb"), safe_open(path, "pt") as file:
            header = file.metadata() or {}
            if header["format"] != _FORMAT:
                raise InputError(f"{path} is of version {header['format']!r}, this nonneg reads version {_FORMAT!r}")
            names = file.keys()
            tensors = {name: file.get_tensor(name) for name in names}
        step, data, digest = int(header["step"]), header["data"], header["sha256"]
    except (SafetensorError, KeyError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise _DamagedError(f"checkpoint {path} is damaged: {' '.join(str(error).split())}") from error
    if digest != _digest(tensors):
        raise _DamagedError(f"checkpoint {path} is damaged: its content is not what was written")
    return Checkpoint(step, data, tensors)


def _laid_out(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """A safetensors file, piece by piece.

    The library lays out the whole file in memory and keeps Python's lock meanwhile, which the thread that feeds a GPU
    cannot spare; or it writes a file that is neither flushed to disk nor readable by others.
    """
    # Wide types first: each tensor lies where its type may lie in memory.
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
    """The optimiser's state, parameter by parameter. Its settings are the config's."""
    for number, state in optimiser.state_dict()["state"].items():
        for name, value in state.items():
            yield f"{number}.{name}", value if isinstance(value, Tensor) else torch.tensor(value)


def restore_optimiser(optimiser: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimiser_tensors` gave; a ValueError if it is of another model."""
    state: dict[int, dict[str, Any]] = {}
    for key, tensor in tensors.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = tensor
    groups = optimiser.state_dict()["param_groups"]
    lrs = [group["lr"] for group in optimiser.param_groups]
    optimiser.load_state_dict({"state": state, "param_groups": groups})
    for group, lr in zip(optimiser.param_groups, lrs, strict=True):
        group["lr"] = lr  # the very tensor that a recorded step reads
        for p in group["params"]:
            for name, value in optimiser.state[p].items():
                if value.shape == p.shape:  # in the parameter's memory format, which fused steps insist on
                    optimiser.state[p][name] = torch.empty_like(p).copy_(value)
                elif value.dim():
                    raise ValueError(f"{name} is of shape {tuple(value.shape)}, expected {tuple(p.shape)}")
