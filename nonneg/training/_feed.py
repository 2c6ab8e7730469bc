"""Batches on the device: gathered from samples stored there, read ahead from disk, or made by loader processes."""

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.modalities import Shared, SomeRows, Source, arrays_of, as_tensors, is_uniform, map_arrays, unwrapped
from nonneg.processes import memory
from nonneg.training.config import TrainConfig

_AHEAD = 4  # batches that are read before they are needed, by as many threads
_DEVICE_SHARE = 0.5  # of the device's free memory that samples may take; the rest is for the network
_HOST_SHARE = 0.25
_BLOCK_BYTES = 2**26  # copied at a time, so that data on disk need not fit into the host's memory


class Batch(NamedTuple):
    """The samples of one step on this device: `Source.samples` of their row numbers, these numbers, their labels."""

    content: Any
    samples: Tensor
    labels: Tensor | None

    def part(self, rows: slice) -> "Batch":
        """Return some of the samples."""
        labels = None if self.labels is None else self.labels[rows]
        return Batch(map_arrays(itemgetter(rows), self.content), self.samples[rows], labels)


class Feed(ABC):
    """Yields batches by their row numbers, `(steps, batch)`; `where` describes where the samples are kept."""

    where: str

    def __init__(self, source: Source, device: torch.device) -> None:
        self.source, self.device = source, device
        self.labels = None if source.labels is None else torch.from_numpy(source.labels).to(device)

    def batches(self, rows: Tensor, epoch: int) -> Iterator[Batch]:
        """Yield the batches of an epoch."""
        for content, samples in self.contents(rows, epoch):
            yield Batch(content, samples, None if self.labels is None else self.labels[samples])

    @abstractmethod
    def contents(self, rows: Tensor, epoch: int) -> Iterator[tuple[Any, Tensor]]:
        """Yield the content and the row numbers of each batch."""


def open_feed(source: Source, config: TrainConfig, device: torch.device, views: int = 2) -> Feed:
    """Keep the samples on the device if they fit, otherwise read them ahead; `config.data_on` overrides this."""
    if _loads_views(source, config, views):
        return LoadedViews(source, config, device, views)
    return Resident(source, device) if _is_resident(source, config, device) else ReadAhead(source, device)


def bytes_held(source: Source, config: TrainConfig, device: torch.device, processes: int, views: int = 2) -> int:
    """Return the bytes of the samples that a feed with so many views keeps in memory at a time."""
    if _is_resident(source, config, device) and not _loads_views(source, config, views):
        return _all_bytes(source.samples)
    sizes = [(int(part.nbytes), isinstance(part, Shared)) for part in arrays_of(source.samples[[0]])]
    ahead = _AHEAD * config.batch_size // processes
    return sum(size if shared else ahead * size for size, shared in sizes)


def needed_memory(source: Source, config: TrainConfig, fabric: Any, step: int, views: int) -> str:
    """Describe the memory that the data and a step take; raise an error if there is less: the system would end
    the process.

    On a GPU only data is checked: a compiled step takes less than this, and running out of memory is an error there.
    """
    on_gpu, data = fabric.device.type == "cuda", bytes_held(source, config, fabric.device, fabric.world_size, views)
    available = _available_memory(fabric.device)
    sizes = [f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB" for size in (data, step, available)]
    if data + (0 if on_gpu else step) > available:
        raise InputError(
            f"the run takes about {sizes[0]} for data and {sizes[1]} for a step, expected at most {sizes[2]}, the"
            f" memory that it can use; {config.modality.savings}"
        )
    return f"about {sizes[0]} for data and {sizes[1]} for a step, of {sizes[2]}"


def _loads_views(source: Source, config: TrainConfig, views: int) -> bool:
    none = torch.zeros((0, 1), dtype=torch.int64)
    return config.modality.load_views(source, none, config.seed, 0, views) is not None


def _is_resident(source: Source, config: TrainConfig, device: torch.device) -> bool:
    if config.data_on == "disk" or not _can_be_resident(source.samples, device):
        return False
    share = _DEVICE_SHARE if device.type == "cuda" else _HOST_SHARE
    return config.data_on == "device" or _all_bytes(source.samples) < share * _available_memory(device)


def _can_be_resident(samples: Any, device: torch.device) -> bool:
    """Whether samples are an array; for a GPU, also whether they can be stored as arrays, such as pairs and tokens."""
    return isinstance(samples, np.ndarray) or (device.type == "cuda" and is_uniform(samples))


def _all_bytes(samples: Any) -> int:
    if isinstance(samples, np.ndarray):
        return int(samples.nbytes)
    return len(samples) * sum(int(part.nbytes) for part in arrays_of(samples[[0]]))


def _available_memory(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else memory()


class Resident(Feed):
    """All samples on the device."""

    def __init__(self, source: Source, device: torch.device) -> None:
        super().__init__(source, device)
        self.samples = _on_device(source.samples, device)
        self.where = f"all {_all_bytes(source.samples) / 1e6:,.1f} MB on the device"

    def contents(self, rows: Tensor, epoch: int) -> Iterator[tuple[Any, Tensor]]:
        for samples in rows.to(self.device):
            yield map_arrays(itemgetter(samples), self.samples), samples


def _on_device(samples: Any, device: torch.device) -> Any:
    """Return the batch of all samples on the device, copied block by block."""
    is_array = isinstance(samples, np.ndarray)
    if is_array and device.type == "cpu" and samples.flags.writeable and samples.flags.c_contiguous:
        return torch.from_numpy(samples)  # no copy
    # Copies, because torch accepts neither read-only arrays, such as memory maps, nor reversed ones.
    one = map_arrays(lambda part: torch.from_numpy(np.array(part)), samples[np.zeros(1, np.int64)])
    there = map_arrays(lambda part: part.new_empty((len(samples), *part.shape[1:]), device=device), one)
    rows = max(1, _BLOCK_BYTES // max(1, sum(part.nbytes for part in arrays_of(one))))
    for start in range(0, len(samples), rows):
        block = slice(start, min(start + rows, len(samples)))
        parts = samples[block] if is_array else samples[np.arange(block.start, block.stop)]
        for target, part in zip(arrays_of(there), arrays_of(parts), strict=True):
            target[block] = torch.from_numpy(np.array(part))
    return there


class ReadAhead(Feed):
    """Samples stay where they are; threads read the next batches ahead."""

    def __init__(self, source: Source, device: torch.device) -> None:
        super().__init__(source, device)
        self.file = MappedRows.of(source.samples)
        self.where = f"{'in memory' if self.file is None else 'on disk'}, {_AHEAD} batches ahead"

    def contents(self, rows: Tensor, epoch: int) -> Iterator[tuple[Any, Tensor]]:
        on_gpu = self.device.type == "cuda"
        reads: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(_AHEAD) as readers:
            begun = 0
            for i, samples in enumerate(rows):
                while begun < min(i + _AHEAD, len(rows)):
                    reads.append(readers.submit(self._read, rows[begun].numpy(), on_gpu))
                    begun += 1
                # A finished read is dropped at once, so that its memory can be used again.
                batch = reads.popleft().result()
                content = map_arrays(lambda part: part.to(self.device, non_blocking=True), batch)
                yield content, samples.to(self.device, non_blocking=True)

    def _read(self, rows: npt.NDArray[np.int64], pinned: bool) -> Any:
        samples = self.source.samples
        batch = as_tensors(samples[rows] if self.file is None else self.file.read(rows))
        # torch keeps pinned memory until the copy from it is done, and then reuses it.
        return map_arrays(lambda part: part.pin_memory(), batch) if pinned else batch


class LoadedViews(Feed):
    """Views that cannot be drawn on the device, made by the modality's loader processes."""

    def __init__(self, source: Source, config: TrainConfig, device: torch.device, views: int) -> None:
        super().__init__(source, device)
        self.config, self.views = config, views
        self.where = "read and transformed by loader processes"

    def contents(self, rows: Tensor, epoch: int) -> Iterator[tuple[Any, Tensor]]:
        loaded = self.config.modality.load_views(self.source, rows, self.config.seed, epoch, self.views)
        assert loaded is not None  # checked when the feed was opened
        for content, samples in zip(loaded, rows, strict=True):
            there = map_arrays(lambda part: part.to(self.device, non_blocking=True), content)
            yield there, samples.to(self.device, non_blocking=True)


class MappedRows:
    """Rows of a memory map, read with `pread`.

    Through the map, a row would be read page by page, and the pages would count as this process's memory.
    """

    def __init__(self, array: "np.memmap[Any, Any]", rows: npt.NDArray[np.int64] | None) -> None:
        self.array, self.rows, self.path = array, rows, Path(str(array.filename))
        self.row_bytes = array[:1].nbytes
        with read_errors_as_input_errors(self.path):
            self.file = os.open(self.path, os.O_RDONLY)
        whole = array
        while isinstance(whole.base, np.memmap):  # a slice of a map only stores the offset of the whole map
            whole = whole.base
        self.start = int(whole.offset + array.ctypes.data - whole.ctypes.data)

    @classmethod
    def of(cls, samples: Any) -> "MappedRows | None":
        """Return the rows of a contiguous memory map, or of a selection of its rows; None for anything else."""
        array, rows = unwrapped(samples) if isinstance(samples, SomeRows) else (samples, None)
        is_map = isinstance(array, np.memmap) and array.filename is not None and array.flags.c_contiguous
        is_map = is_map and array.mode != "c"  # changes of such a map are not in its file
        return cls(array, rows) if is_map and hasattr(os, "preadv") else None

    def read(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return `(rows, …)`, a new array."""
        rows = rows if self.rows is None else self.rows[rows]
        batch = np.empty((len(rows), *self.array.shape[1:]), self.array.dtype)
        with read_errors_as_input_errors(self.path):
            for row, target in zip(rows.tolist(), batch.reshape(len(rows), -1), strict=True):
                if (
                    os.preadv(self.file, [target.view(np.uint8).data], self.start + row * self.row_bytes)
                    != self.row_bytes
                ):
                    raise InputError(f"sample {row} cannot be read: {self.path} has become shorter")
        return batch

    def __del__(self) -> None:
        if hasattr(self, "file"):
            os.close(self.file)
