"""The caller's own data: a map-style dataset, a transform in loader processes, a preprocessing function."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from nonneg.modalities._source import Source
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

    def load_views(
        self, source: Source, rows: Tensor, seed: int, epoch: int, count: int
    ) -> Iterator[tuple[Tensor, ...]]:
        """Yield batches `(batch, count, …)` of `count` views of each sample."""
        items = source.samples
        if items.transform is None:
            raise InputError("views is missing, expected a transform of one sample into one view")
        workers = min(_MOST_WORKERS, cores()) if self.workers < 0 else self.workers
        views = _Views(items, seed, epoch, count)
        loader = DataLoader(
            views,
            batch_sampler=[batch.tolist() for batch in rows],
            num_workers=min(workers, len(rows)),
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),  # otherwise it would draw from the generator that a resumed run restores
        )
        return iter(loader) if len(rows) else iter(())

    def draw_views(
        self, batch: Tensor, samples: Tensor, seed: int, epoch: Tensor | int, count: int, dtype: torch.dtype
    ) -> Tensor:
        """Return first views, then second ones, of a batch that already holds views."""
        return batch.transpose(0, 1).flatten(0, 1).to(dtype)


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
        inputs = [self.preprocess(self.sample(int(row))) for row in np.arange(len(self))[rows]]
        try:
            return default_collate(inputs)
        except (RuntimeError, TypeError) as error:
            raise InputError(f"preprocess returns inputs that cannot be joined: {one_line(error)}") from error

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


def as_input(sample: Any) -> Tensor:
    """Return tensors unchanged, and images (PIL or uint8 arrays) as `(channels, height, width)` floats from 0 to 1."""
    if isinstance(sample, Tensor):
        return sample
    array = np.asarray(sample)
    if array.dtype != np.uint8:
        return torch.from_numpy(np.array(array))
    image = torch.from_numpy(np.array(array))
    return (image[None] if image.ndim == 2 else image.permute(2, 0, 1)).float() / 255


class _Views(Dataset[Tensor]):
    """Views of a sample that depend only on (seed, epoch, sample, view), whichever process makes them."""

    def __init__(self, items: Items, seed: int, epoch: int, count: int) -> None:
        self.items, self.seed, self.epoch, self.count = items, seed, epoch, count

    def __getitem__(self, row: int) -> Tensor:
        assert self.items.transform is not None
        sample, views = None, []
        # The caller's own random generators continue as if nothing had been drawn.
        states = random.getstate(), np.random.get_state()  # noqa: NPY002 (transforms use the global generators)
        with torch.random.fork_rng([]):
            for view in range(self.count):
                drawn = np.random.SeedSequence((self.seed, self.epoch, row, view)).generate_state(1)
                random.seed(int(drawn[0]))
                np.random.seed(drawn[0])  # noqa: NPY002
                torch.default_generator.manual_seed(int(drawn[0]))  # not those of GPUs, which are not restored here
                sample = sample if view else self.items.sample(row)  # seeded: a dataset may draw random numbers, too
                views.append(as_input(self.items.transform(sample)))
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        return torch.stack(views)
