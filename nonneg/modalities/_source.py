"""`Source`: samples to train on or to embed, with ids and labels; and its batches.

A batch is an array, or a tuple or dictionary of arrays, whose first axis runs over samples; a `Shared` part has none.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from nonneg.errors import InputError


@dataclass(frozen=True, eq=False)
class Source:
    """Samples of any modality, with ids, labels and, for drawn data, the factors they were drawn from.

    Attributes:
        name: where the samples come from, for provenance; never an absolute path.
        samples: `samples[rows]` is the batch of these row numbers for the modality: an array, or a tuple or dictionary
            of arrays; several threads may call it at a time. For images: `(samples, height, width, channels)` uint8,
            possibly a read-only memory map larger than memory.
        ids: one string per sample, all different; row numbers if omitted.
        labels: `(samples,)` int64, -1 for an unlabelled sample; None if no sample is labelled.
        label_names: the names of labels 0, 1, ….
        factors: factor name to `(samples,)` int64 values.
        factor_names: factor name to the names of its values 0, 1, ….
        skipped: names of the samples left out because they cannot be read.
        split: `(samples,)` int64, the part of a published division that a sample belongs to: 0 for train, 1 for
            validation, 2 for test, -1 for none; None if there is no such division.
        notes: what is worth knowing about the data, such as repeated edges that were merged or texts that were cut.

    Example:
        >>> source = Source("waves", np.zeros((3, 16), np.float32), labels=np.array([0, 1, 1]))
        >>> len(source), source.ids, source.take([2, 0]).labels
        (3, ('0', '1', '2'), array([1, 0]))
    """

    name: str
    samples: Any
    ids: tuple[str, ...] = ()
    labels: npt.NDArray[np.int64] | None = None
    label_names: tuple[str, ...] = ()
    factors: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    factor_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    split: npt.NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not hasattr(self.samples, "__len__") or isinstance(self.samples, list | tuple | dict | str):
            raise InputError(
                f"samples is a {type(self.samples).__name__}, expected an array, or as in `Source.samples`"
            )
        if not self.ids:
            object.__setattr__(self, "ids", tuple(map(str, range(len(self)))))
        elif len({name for name in self.ids if isinstance(name, str)}) < len(self.ids):
            raise InputError("ids: some are the same or no strings, expected a different string for each sample")
        for name, values in {"ids": self.ids, "labels": self.labels, "split": self.split, **self.factors}.items():
            if values is not None and len(values) != len(self):
                raise InputError(f"{name}: {len(values)} given, expected {len(self)}, one per sample")
        if self.labels is not None:
            numbers = np.asarray(self.labels)
            if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
                raise InputError(f"labels: {numbers.dtype} of shape {numbers.shape}, expected one integer per sample")
            object.__setattr__(self, "labels", numbers.astype(np.int64, copy=False))

    def __len__(self) -> int:
        return len(self.samples)

    def take(self, rows: Any) -> "Source":
        """Return some of the samples, by row numbers (in this order) or by a mask. Samples on disk stay there."""
        rows = np.arange(len(self))[np.asarray(rows) if len(rows) else []]  # a mask becomes row numbers
        return Source(
            self.name,
            self.samples[rows] if type(self.samples) is np.ndarray else SomeRows(self.samples, rows),
            tuple(self.ids[int(row)] for row in rows),
            None if self.labels is None else self.labels[rows],
            self.label_names,
            {name: values[rows] for name, values in self.factors.items()},
            self.factor_names,
            self.skipped,
            None if self.split is None else self.split[rows],
            self.notes,
        )


class SomeRows:
    """Some rows of an array on disk, or of anything indexed by row numbers; rows are read when they are used.

    Attributes:
        whole: the object that the rows are taken from.
        rows: `(samples,)` int64, their numbers in `whole`.
    """

    def __init__(self, whole: Any, rows: npt.NDArray[np.int64]) -> None:
        self.whole, self.rows = whole, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any) -> Any:
        return self.whole[self.rows[rows]]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the rows, if `whole` is an array."""
        return (len(self.rows), *self.whole.shape[1:])


def unwrapped(samples: Any) -> tuple[Any, npt.NDArray[np.int64]]:
    """Return the samples that a selection was taken from, and the rows that were taken.

    Example:
        >>> unwrapped(SomeRows(SomeRows("samples", np.array([5, 3, 8])), np.array([2, 0])))
        ('samples', array([8, 5]))
    """
    rows = np.arange(len(samples))
    while isinstance(samples, SomeRows):
        samples, rows = samples.whole, samples.rows[rows]
    return samples, rows


def is_uniform(samples: Any) -> bool:
    """Whether a sample has arrays of the same shapes in every batch, so that all samples can be stored as one batch.

    This holds for arrays, and for objects whose attribute of this name is true.

    Example:
        >>> is_uniform(np.zeros((3, 2))), is_uniform(SomeRows(np.zeros((3, 2)), np.array([1]))), is_uniform([1])
        (True, True, False)
    """
    samples, _ = unwrapped(samples)
    return isinstance(samples, np.ndarray) or bool(getattr(samples, "is_uniform", False))


class ChangedRows:
    """Samples that are changed when they are read, and not stored.

    Args:
        whole: the samples.
        change: maps a batch and its row numbers to the changed batch.
    """

    def __init__(self, whole: Any, change: Callable[[Any, npt.NDArray[np.int64]], Any]) -> None:
        self.whole, self.change = whole, change

    def __len__(self) -> int:
        return len(self.whole)

    def __getitem__(self, rows: Any) -> Any:
        rows = np.arange(len(self))[rows]
        return self.change(self.whole[rows], rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the unchanged samples, if they are an array."""
        return tuple(self.whole.shape)


class Shared:
    """Tensors that all samples of a batch share, such as the graph whose nodes they are.

    It is a part of a batch beside arrays over samples and takes the same calls: dividing a batch by rows or views
    leaves it unchanged, and it is copied to a device once, however many batches refer to it.

    Args:
        tensors: the tensors by name.

    Example:
        >>> graph = Shared({"ends": torch.tensor([[0, 1], [1, 2]])})
        >>> graph[:1] is graph, graph.to("cpu") is graph.to("cpu")
        (True, True)
    """

    shape: tuple[int, ...] = ()
    encoded_whole: bool = True
    """Whether an encoder computes all of it for any number of samples, so that it is best asked for all at once."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.tensors = dict(tensors)
        self._copies: dict[torch.device, Self] = {}

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """Return the copy on a device; the first call makes it."""
        place = torch.empty(0, device=device).device  # cuda becomes cuda:0
        if all(tensor.device == place for tensor in self.tensors.values()):
            return self
        if place not in self._copies:
            self._copies[place] = type(self)({name: tensor.to(place) for name, tensor in self.tensors.items()})
        return self._copies[place]

    def __getitem__(self, rows: Any) -> Self:
        return self

    def expand(self, *shape: int) -> Self:
        """Return itself for any number of samples."""
        return self

    def chunk(self, chunks: int) -> tuple[Self, ...]:
        """Return itself for each part of a batch."""
        return (self,) * chunks

    def pin_memory(self) -> Self:
        """Return itself: it is not copied with every batch."""
        return self

    def record_stream(self, stream: Any) -> None:
        """Do nothing: the copy on a device is kept."""

    @property
    def nbytes(self) -> int:
        """The size of all tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    @cached_property
    def digest(self) -> bytes:
        """A hash of the tensors' content."""
        found = hashlib.sha256()
        for name, tensor in self.tensors.items():
            found.update(repr((name, tuple(tensor.shape))).encode() + tensor.cpu().numpy().tobytes())
        return found.digest()


def encoded_whole(batch: Any) -> bool:
    """Whether encoding a batch takes as long for a few of its samples as for all, because of what they share."""
    return any(isinstance(part, Shared) and part.encoded_whole for part in arrays_of(batch))


def map_arrays(function: Callable[[Any], Any], batch: Any) -> Any:
    """Apply a function to every array and `Shared` part of a batch; a list becomes a tuple.

    Example:
        >>> map_arrays(len, {"tokens": np.zeros((4, 9)), "mask": np.ones((4, 9))})
        {'tokens': 4, 'mask': 4}
    """
    if isinstance(batch, dict):
        return {name: map_arrays(function, part) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        return tuple(map_arrays(function, part) for part in batch)
    return function(batch)


def arrays_of(batch: Any) -> Iterator[Any]:
    """Yield every array and `Shared` part of a batch, in order."""
    if isinstance(batch, dict | tuple | list):
        for part in batch.values() if isinstance(batch, dict) else batch:
            yield from arrays_of(part)
    else:
        yield batch


def as_tensors(batch: Any) -> Any:
    """Convert the NumPy arrays of a batch to tensors, without copies unless torch needs them; keep tensors."""

    def tensor(part: Any) -> torch.Tensor | Shared:
        if isinstance(part, torch.Tensor | Shared):
            return part
        return torch.from_numpy(part if part.flags.writeable and part.flags.c_contiguous else np.array(part))

    return map_arrays(tensor, batch)
