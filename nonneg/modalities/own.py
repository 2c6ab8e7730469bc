"""The caller's own data: a map-style dataset, a transform in loader processes, a preprocessing function."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from nonneg.errors import InputError
from nonneg.messages import one_line
from nonneg.modalities._modality import Modality, register
from nonneg.modalities._source import Source, map_arrays, unwrapped
from nonneg.processes import cores

Transform = Callable[[Any], Any]
_MOST_WORKERS = 16


@register
@dataclass(frozen=True)
class Own(Modality):
    """Samples of the caller's own dataset, transformed one by one on the CPU.

    `nonneg.train(config, source=dataset, views=transform)` uses it; `Source.samples` is then an `Items`.
    """

    name: ClassVar[str] = "own"

    workers: Annotated[int, Field(ge=-1)] = -1
    """Loader processes for the transform; -1 is one per core, at most 16; 0 loads in this process."""

    def open(
        self, data: Any, split: str = "train", *, skip_broken: bool | None = None, progress: bool = True
    ) -> Source:
        """Return the source of a map-style dataset with the default preprocessing; see `source_of` for another one."""
        if isinstance(data, Source | str | Path):
            return super().open(data, split, skip_broken=skip_broken, progress=progress)
        return source_of(data)

    def load_views(self, source: Source, rows: Tensor, seed: int, epoch: int, count: int) -> Iterator[Any]:
        """Yield batches of `count` views of each sample; their arrays are `(batch, count, …)`."""
        items, numbers = unwrapped(source.samples)
        rows = torch.from_numpy(numbers)[rows]
        if getattr(items, "transform", None) is None:
            raise InputError("views is missing, expected a transform of one sample into one view")
        workers = min(_MOST_WORKERS, cores()) if self.workers < 0 else self.workers
        loader = DataLoader(
            _Views(items, seed, epoch, count),
            batch_sampler=[batch.tolist() for batch in rows],
            num_workers=min(workers, len(rows)),
            pin_memory=torch.cuda.is_available(),
            collate_fn=partial(_joined, maker="views"),
            generator=torch.Generator(),  # otherwise it would draw from the generator that a resumed run restores
        )
        return iter(loader) if len(rows) else iter(())

    def draw_views(
        self, batch: Any, samples: Tensor, seed: int, epoch: Tensor | int, count: int, dtype: torch.dtype
    ) -> Any:
        """Return first views, then second ones, of a batch that already holds views."""
        return map_arrays(lambda part: part.transpose(0, 1).flatten(0, 1), _with_floats(batch, dtype))

    def inputs(self, batch: Any) -> Any:
        return _with_floats(batch, torch.float32)


class Items:
    """A dataset's samples by row: `items[rows]` is a batch of inputs of the encoder.

    Args:
        dataset: a map-style dataset; an item is `(sample, label)` or the sample alone.
        transform: maps one sample to one random view, in training.
        preprocess: maps one sample to the encoder's input, outside training; by default tensors stay unchanged, and
            images (PIL, or uint8 arrays `(height, width, channels)`) become `(channels, height, width)` from 0 to 1.
    """

    def __init__(self, dataset: Any, transform: Transform | None, preprocess: Transform | None) -> None:
        self.dataset, self.transform, self.preprocess = dataset, transform, preprocess or as_input

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, rows: Any) -> Any:
        inputs = []
        for row in np.arange(len(self))[rows].tolist():
            with _seeded(row):  # a dataset may draw random numbers
                inputs.append(self.preprocess(self.sample(row)))
        return _joined(inputs, "preprocess")

    def sample(self, row: int) -> Any:
        item = self.dataset[row]
        return item[0] if isinstance(item, tuple | list) else item


def source_of(
    dataset: Any, transform: Transform | None = None, preprocess: Transform | None = None, name: str = "dataset"
) -> Source:
    """Return the source of a map-style dataset, with labels from `dataset.targets` or `dataset.labels` if present.

    Example:
        >>> pairs = [(torch.rand(4), 0), (torch.rand(4), 1)]
        >>> len(source_of(pairs))
        2
    """
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise InputError(f"source is a {type(dataset).__name__}, expected a Source or a map-style dataset")
    labels = getattr(dataset, "targets", getattr(dataset, "labels", None))
    labels = None if labels is None else np.asarray(labels)
    if labels is not None and (labels.shape != (len(dataset),) or labels.dtype.kind not in "iu"):
        labels = None
    samples = Items(dataset, transform, preprocess)
    return Source(name, samples, labels=None if labels is None else labels.astype(np.int64))


def as_input(sample: Any) -> Any:
    """Return tensors unchanged, and images (PIL or uint8 arrays) as `(channels, height, width)` floats from 0 to 1.

    Tuples and dictionaries stay such; so the encoder gets them.
    """
    if isinstance(sample, Tensor):
        return sample
    if isinstance(sample, dict | tuple):
        return map_arrays(as_input, sample)
    array = np.array(sample)
    if array.dtype.kind not in "biuf":
        expected = "a tensor, an array of numbers, an image, or a tuple or dictionary of these"
        raise InputError(f"views or preprocess returns a {type(sample).__name__}, expected {expected}")
    given = torch.from_numpy(array)
    if array.dtype != np.uint8 or array.ndim not in (2, 3):
        return given
    return (given[None] if given.ndim == 2 else given.permute(2, 0, 1)).float() / 255


def _copied(sample: Any) -> Any:
    """Return a copy that a transform may change: the sample serves for all views, and may be memory of the dataset."""
    if type(sample) in (tuple, list):
        return type(sample)(map(_copied, sample))
    if isinstance(sample, dict):
        return {name: _copied(part) for name, part in sample.items()}
    if isinstance(sample, Tensor):
        return sample.clone()
    return sample.copy() if isinstance(sample, np.ndarray) else sample


def _with_floats(batch: Any, dtype: torch.dtype) -> Any:
    """Convert the precision of numbers; integers, such as tokens, stay integers."""
    return map_arrays(lambda part: part.to(dtype) if part.is_floating_point() else part, batch)


def _joined(parts: list[Any], maker: str) -> Any:
    """Join samples or views to a batch; `maker` is the argument that made them."""
    try:
        return default_collate(parts)
    except (RuntimeError, TypeError, KeyError) as error:
        raise InputError(f"{maker} returns what cannot be joined to a batch: {one_line(error)}") from error


@contextmanager
def _seeded(*key: int) -> Iterator[None]:
    """Seed the global generators by a key; afterwards they continue as if nothing had been drawn."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 (transforms use the global generators)
    drawn = int(np.random.SeedSequence(key).generate_state(1)[0])
    try:
        with torch.random.fork_rng([]):
            random.seed(drawn)
            np.random.seed(drawn)  # noqa: NPY002
            torch.default_generator.manual_seed(drawn)  # not those of GPUs, which are not restored here
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


class _Views(Dataset[Any]):
    """Views of a sample that depend only on (seed, epoch, sample, view), whichever process makes them."""

    def __init__(self, items: Items, seed: int, epoch: int, count: int) -> None:
        self.items, self.seed, self.epoch, self.count = items, seed, epoch, count

    def __getitem__(self, row: int) -> Any:
        assert self.items.transform is not None
        sample, views = None, []
        for view in range(self.count):
            with _seeded(self.seed, self.epoch, row, view):
                sample = sample if view else self.items.sample(row)  # seeded: a dataset may draw random numbers, too
                views.append(as_input(self.items.transform(_copied(sample))))
        return _joined(views, "views")
