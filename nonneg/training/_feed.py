"""Batches on the device: gathered from images that lie there, or read ahead from disk."""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.modalities import Source
from nonneg.processes import memory
from nonneg.training._step import Batch
from nonneg.training.config import TrainConfig

_AHEAD = 4  # batches read before they are needed, by as many threads
_DEVICE_SHARE = 0.5  # of the memory that is free: the rest is for the network
_HOST_SHARE = 0.25
_BLOCK_BYTES = 2**26  # copied at a time: what lies on disk need not fit into the host's memory beside the device's


class Feed(Protocol):
    """Yields the batches of these sample numbers, `(steps, batch)`, one after the other."""

    where: str

    def batches(self, rows: Tensor) -> Iterator[Batch]: ...


def open_feed(source: Source, config: TrainConfig, device: torch.device) -> Feed:
    """Images on the device if they fit there, else read ahead; `data_on` can decide otherwise."""
    labels = None if source.labels is None else torch.from_numpy(source.labels).to(device)
    fits = source.images.nbytes < _room(device)
    if config.data_on == "device" or (config.data_on == "auto" and fits):
        return Resident(source.images, labels, device)
    return ReadAhead(source.images, labels, device)


def _room(device: torch.device) -> float:
    if device.type == "cuda":
        return _DEVICE_SHARE * torch.cuda.mem_get_info(device)[0]
    return _HOST_SHARE * memory()


class Resident:
    """All images as uint8 on the device."""

    def __init__(self, images: npt.NDArray[np.uint8], labels: Tensor | None, device: torch.device) -> None:
        self.images = _on_device(images, device)
        self.labels = labels
        self.where = f"all {images.nbytes / 1e6:,.1f} MB on the device"

    def batches(self, rows: Tensor) -> Iterator[Batch]:
        for samples in rows.to(self.images.device):
            yield Batch(self.images[samples], samples, None if self.labels is None else self.labels[samples])


def _on_device(images: npt.NDArray[np.uint8], device: torch.device) -> Tensor:
    if device.type == "cpu" and images.flags.writeable:
        return torch.from_numpy(images)  # it lies there already
    there = torch.empty(images.shape, dtype=torch.uint8, device=device)
    rows = max(1, _BLOCK_BYTES // max(1, images[:1].nbytes))
    for start in range(0, len(images), rows):
        # A copy: torch takes no array that is read-only, as a map is.
        there[start : start + rows] = torch.from_numpy(np.array(images[start : start + rows]))
    return there


class ReadAhead:
    """Images stay on disk; threads read the next batches into buffers that are used in turn.

    Rows of a memory map are read with `pread`, not through the map: its pages would count as this
    process's memory, as much as the machine has, and a row would be read page by page.
    """

    def __init__(self, images: npt.NDArray[np.uint8], labels: Tensor | None, device: torch.device) -> None:
        self.images, self.labels, self.device = images, labels, device
        self.row_bytes = images[:1].nbytes
        self.file: int | None = None
        if isinstance(images, np.memmap) and images.filename is not None and images.flags.c_contiguous:
            with read_errors_as_input_errors(Path(images.filename)):
                self.file, self.start = os.open(images.filename, os.O_RDONLY), _place_in_file(images)
        where = "in memory" if self.file is None else "on disk"
        self.where = f"{images.nbytes / 1e6:,.1f} MB {where}, {_AHEAD} batches ahead"

    def batches(self, rows: Tensor) -> Iterator[Batch]:
        on_gpu = self.device.type == "cuda"
        shape = (rows.shape[1], *self.images.shape[1:])
        # One buffer more than is read ahead: the one that the device copies from.
        buffers = [torch.empty(shape, dtype=torch.uint8, pin_memory=on_gpu) for _ in range(_AHEAD + 1)]
        copied: list[torch.cuda.Event | None] = [None] * len(buffers)
        with ThreadPoolExecutor(_AHEAD) as readers:
            # Finished reads are let go of at once: kept, they would lie scattered among freed batches and keep the
            # allocator from using that memory again.
            reads: deque[Future[None]] = deque()
            begun = 0
            for i, samples in enumerate(rows):
                while begun < min(i + _AHEAD, len(rows)):
                    slot = begun % len(buffers)
                    event = copied[slot]
                    if event is not None:
                        event.synchronize()
                    reads.append(readers.submit(self._read, rows[begun].numpy(), buffers[slot].numpy()))
                    begun += 1
                reads.popleft().result()
                slot = i % len(buffers)
                images = buffers[slot].to(self.device, non_blocking=True, copy=True)
                if on_gpu:
                    copied[slot] = torch.cuda.Event()
                    copied[slot].record()  # type: ignore[union-attr]
                here = samples.to(self.device, non_blocking=True)
                yield Batch(images, here, None if self.labels is None else self.labels[here])

    def _read(self, rows: npt.NDArray[np.int64], buffer: npt.NDArray[np.uint8]) -> None:
        if self.file is None:
            np.take(self.images, rows, axis=0, out=buffer)
            return
        with read_errors_as_input_errors(Path(self.images.filename)):  # type: ignore[attr-defined]
            for row, target in zip(rows.tolist(), buffer.reshape(len(rows), -1), strict=True):
                if os.preadv(self.file, [target], self.start + row * self.row_bytes) != self.row_bytes:  # type: ignore[list-item]
                    raise InputError(f"sample {row} cannot be read: the file of images has become shorter")

    def __del__(self) -> None:
        if self.file is not None:
            os.close(self.file)


def _place_in_file(images: "np.memmap[Any, Any]") -> int:
    """Where the first image begins; a part of a map knows only where the whole map does."""
    whole = images
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    return int(whole.offset + images.ctypes.data - whole.ctypes.data)
