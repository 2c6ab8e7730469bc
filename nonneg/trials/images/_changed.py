"""Images that are read lazily: some rows of a source, corrupted images, random views."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nonneg.devices import choose_device
from nonneg.modalities import Source
from nonneg.modalities.images import ViewConfig, random_views

Images = npt.NDArray[np.uint8]
Read = Callable[[npt.NDArray[np.int64]], Images]


class LazyImages:
    """Images that are made when rows are indexed; a substitute for the array `Source.images`.

    Args:
        read: row numbers `(rows,)` to images `(rows, height, width, channels)`.
        shape: of all images.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, read: Read, shape: tuple[int, ...]) -> None:
        self.read, self.shape, self.ndim = read, shape, len(shape)
        self.nbytes = int(np.prod(shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Images:
        rows, *rest = key if isinstance(key, tuple) else (key,)
        numbers = np.arange(len(self))[rows]
        images = self.read(numbers.reshape(-1)).reshape(*numbers.shape, *self.shape[1:])
        return np.asarray(images[(*(slice(None),) * numbers.ndim, *rest)])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self[:].astype(dtype or np.uint8, copy=False)


def lazy_rows(source: Source, rows: npt.NDArray[np.int64]) -> Source:
    """Return these rows of a source without copying their images.

    Example:
        >>> from nonneg.modalities.images import open_source
        >>> lazy_rows(open_source("digits", "test"), np.array([3, 5])).ids
        ('digit-0034', 'digit-0037')
    """
    images = LazyImages(lambda numbers: np.asarray(source.images[rows[numbers]]), (len(rows), *source.images.shape[1:]))
    return replace(
        source,
        images=cast(Images, images),
        ids=tuple(source.ids[int(row)] for row in rows),
        labels=None if source.labels is None else source.labels[rows],
        factors={name: values[rows] for name, values in source.factors.items()},
    )


def changed_source(
    source: Source,
    name: str,
    change: Callable[[Tensor, Tensor], Tensor],
    device: str | torch.device | None = None,
    side: int = 0,
) -> Source:
    """Return a source whose images are changed batch by batch when they are read, and not stored.

    It can be embedded like any other source; `take` puts rows of it into memory.

    Args:
        source: images as uint8.
        name: added to the name of the source.
        change: maps a batch of uint8 images and the samples' row numbers to changed uint8 images.
        device: where to change them; None is a CUDA device if there is one.
        side: side of the changed images in pixels; 0 keeps their size.
    """
    place = choose_device(device)

    def read(numbers: npt.NDArray[np.int64]) -> Images:
        batch = torch.from_numpy(np.array(source.images[numbers])).to(place)  # a copy: torch requires writable memory
        return np.asarray(change(batch, torch.from_numpy(numbers).to(place)).cpu().numpy())

    samples, height, width, channels = source.images.shape
    images = LazyImages(read, (samples, side or height, side or width, channels))
    return replace(source, name=f"{source.name}/{name}", images=cast(Images, images))


def viewed_source(
    source: Source, views: ViewConfig, view: int = 0, seed: int = 0, device: str | torch.device | None = None
) -> Source:
    """Return a source in which each image is replaced by one of the random views that training would draw.

    Args:
        source: images as uint8.
        views: how far a view may differ from the image.
        view: number of the view.
        seed: of the random views; a sample's number is its row.
        device: where to make the views; None is a CUDA device if there is one.

    Example:
        >>> from nonneg.modalities.images import open_source
        >>> again = viewed_source(open_source("digits", "test"), ViewConfig(rotate=15.0), view=1)
        >>> again.name, again.images[:5].shape
        ('digits/test/view-1', (5, 8, 8, 1))
    """

    def change(images: Tensor, samples: Tensor) -> Tensor:
        seen = random_views(images.permute(0, 3, 1, 2), samples, views, seed, 0, views=view + 1).chunk(view + 1)[view]
        return (seen * 255).round().byte().permute(0, 2, 3, 1)

    return changed_source(source, f"view-{view}", change, device, views.size)
