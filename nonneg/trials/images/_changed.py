"""Images that are changed as they are read: corrupted, or seen again in a random view."""

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

Change = Callable[[Tensor, Tensor], Tensor]


class ChangedImages:
    """What `Source.images` is of a changed source. It stands in for an array where rows are taken.

    Args:
        images: `(samples, height, width, channels)` uint8; may be a memory map.
        change: images of a batch, uint8, and the samples' numbers to images of the shape `side` gives.
        device: where to change them.
        side: of the changed images; 0 keeps that of the given ones.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, images: npt.NDArray[np.uint8], change: Change, device: torch.device, side: int = 0) -> None:
        self.images, self.change, self.device = images, change, device
        height, width = (side, side) if side else images.shape[1:3]
        self.shape, self.ndim = (images.shape[0], height, width, images.shape[3]), images.ndim
        self.nbytes = int(np.prod(self.shape))

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: Any) -> npt.NDArray[np.uint8]:
        rows, *rest = key if isinstance(key, tuple) else (key,)
        samples = np.arange(len(self))[rows]
        some = np.array(self.images[rows])  # a copy: torch wants memory that can be written
        batch = torch.from_numpy(some.reshape(samples.size, *self.images.shape[1:])).to(self.device)
        numbers = torch.from_numpy(samples.reshape(-1)).to(self.device)
        changed = self.change(batch, numbers).cpu().numpy().reshape(*samples.shape, *self.shape[1:])
        return np.asarray(changed[(*(slice(None),) * samples.ndim, *rest)])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self[:].astype(dtype or np.uint8, copy=False)


def changed_source(
    source: Source, name: str, change: Change, device: str | torch.device | None = None, side: int = 0
) -> Source:
    """The source with its images changed batch by batch as they are read: nothing is kept of them.

    It can be embedded like any other; `take` puts rows of it into memory.

    Args:
        source: images as uint8.
        name: what is said of the change.
        change, side: as for `ChangedImages`.
        device: where to change them; None is a CUDA device if there is one.
    """
    place = choose_device(device)
    images = ChangedImages(source.images, change, place, side)
    return replace(source, name=f"{source.name}/{name}", images=cast("npt.NDArray[np.uint8]", images))


def viewed_source(
    source: Source, views: ViewConfig, view: int = 0, seed: int = 0, device: str | torch.device | None = None
) -> Source:
    """Each image as one of the random views that training would make of it.

    Args:
        source: images as uint8.
        views: how far a view may differ.
        view: which of an image's views.
        seed: of the views; a sample's number is its row.
        device: where to make them; None is a CUDA device if there is one.

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
