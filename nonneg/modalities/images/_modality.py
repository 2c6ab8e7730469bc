"""`Images`: the modality of images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from nonneg.durable import read_bounded
from nonneg.errors import InputError
from nonneg.messages import LEAVE_OUT
from nonneg.modalities._modality import Modality, register
from nonneg.modalities._source import Source
from nonneg.modalities._splits import unique_ids
from nonneg.modalities.images.corruptions import KINDS, SEVERITIES, corrupted_source
from nonneg.modalities.images.encoders import Frozen, Input, build_encoder, check_encoder
from nonneg.modalities.images.sources import (
    MOST_BYTES,
    Column,
    MixedSizesError,
    decode_image,
    open_source,
    typical_side,
)
from nonneg.modalities.images.views import ViewConfig, grey, random_views, resize

_PREVIEW_SIDE = 96
_TINY, _SMALL_NETWORK, _SMALL_STEM = 20, 48, 96  # the longest sides that suit convnet_8, convnet_24 and a small stem
_GPU_VIEWS, _CPU_VIEWS = 128, 32  # sides of the views of larger images
_SMALL_SIDE = 64


@register
@dataclass(frozen=True)
class Images(Modality):
    """Images of any size, as uint8.

    A sample's pixels reach the encoder by one path, in training and outside: the image is resized to `image_size` (if
    that is set), a view is drawn from it or, outside training, its centre is resized to the views' size, and each
    channel is standardised.
    """

    name: ClassVar[str] = "images"
    savings: ClassVar[str] = "reduce batch_size, image_size or views.size, or set encode_rows or accumulate"

    image_size: Annotated[int, Field(ge=0, le=2**13)] = 0
    """Resize images to this side: the shorter side is scaled and the centre is cut out; 0 keeps their size.
    Image files are resized once, when they are cached."""
    skip_broken: bool = False
    """Leave out images that cannot be decoded, and record which; otherwise they are an error that lists them."""
    stem: Literal["standard", "medium", "small", "small_pad_2"] = "standard"
    """First layers of a ResNet: small is a 3x3 convolution for images of about 32 pixels, small_pad_2 pads it by 2;
    medium has a stride of 2, for 64 to 96 pixels."""
    pretrained: bool = False
    """Start from the published weights of a timm: or transformers: encoder."""
    frozen: bool = False
    """Keep these weights, and train only what follows the encoder."""
    mean: tuple[float, ...] = ()
    """Subtracted from each channel of an image with values from 0 to 1; empty for none."""
    std: tuple[Annotated[float, Field(gt=0)], ...] = ()
    """Each channel is divided by it; empty for none."""
    centre: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Outside training, the share of an image's shorter side that the encoder sees; 0.875 is usual for ImageNet."""
    views: ViewConfig = field(default_factory=ViewConfig)
    """How far a view may differ from its image."""
    channels: Annotated[int, Field(ge=0)] = 0
    """Channels of the encoder's input, 1 for grey or 3 for colour; 0: as in the data."""
    height: Annotated[int, Field(ge=0)] = 0
    """Height of the encoder's input outside training; 0: that of the views."""
    width: Annotated[int, Field(ge=0)] = 0
    """Width of the encoder's input outside training; 0: that of the views."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.mean) != len(self.std):
            raise InputError(f"mean is {self.mean} and std is {self.std}, expected the same number of values")
        if self.mean and self.channels and len(self.mean) != self.channels:
            raise InputError(f"mean is {self.mean}, expected one value per channel, {self.channels}, or none")

    def open(
        self, data: Any, split: str = "train", *, skip_broken: bool | None = None, progress: bool = True
    ) -> Source:
        if isinstance(data, Source):
            first = np.asarray(data.samples[[0]]) if len(data) else np.empty((1, 1, 1, 1), np.uint8)
            if first.dtype != np.uint8 or first.ndim != 4:
                found = f"{first.dtype} of shape {(len(data), *first.shape[1:])}"
                raise InputError(f"{data.name} holds {found}, expected uint8 images (n, height, width, channels)")
            return data
        skip = self.skip_broken if skip_broken is None else skip_broken
        opened = partial(open_source, data, split, skip_broken=skip, progress=progress)
        try:
            return opened(image_size=self.image_size)
        except MixedSizesError:
            if not self.height or self.height != self.width:
                raise
            # Outside training the encoder's input has one size: files of any size are brought to it.
            return opened(image_size=round(self.height / self.centre))

    def open_column(
        self, values: Sequence[Any], where: str, folder: Path, *, skip_broken: bool = False, progress: bool = True
    ) -> tuple[Source, npt.NDArray[np.int64]]:
        """Open the images whose paths, relative to the folder, a column holds."""
        named = ["" if value is None else str(value).strip() for value in values]
        empty = [row for row, path in enumerate(named) if not path]
        if len(empty) == len(named):
            raise InputError(f"{where} holds no path of an image, expected one per row")
        if empty and not skip_broken:
            more = f" and {len(empty) - 1:,} more have" if len(empty) > 1 else " has"
            raise InputError(f"{where}: row {empty[0]}{more} no path, expected one per row; {LEAVE_OUT}")
        paths = list(dict.fromkeys(path for path in named if path))
        source = self.open(Column(paths, folder, where), skip_broken=skip_broken, progress=progress)
        source = replace(source, skipped=(*source.skipped, *(f"row {row} (no path)" for row in empty)))
        row = {id: number for number, id in enumerate(source.ids)}
        of_path = {path: row.get(id, -1) for path, id in zip(paths, unique_ids(paths), strict=True)}
        return source, np.array([of_path.get(path, -1) for path in named], np.int64)

    def fitted(self, source: Source) -> Self:
        shape = source.samples.shape
        height, width = (self.image_size, self.image_size) if self.image_size else shape[1:3]
        size = self.views.size
        fitted = replace(
            self,
            channels=self.channels or len(self.mean) or shape[3],
            height=self.height or size or height,
            width=self.width or size or width,
        )
        fitted._in_channels(torch.empty(0, shape[3], 1, 1))  # raises an error if the data has other channels
        return fitted

    def check_encoder(self, name: str) -> None:
        check_encoder(name, self.stem, self.pretrained)
        if self.frozen and not self.pretrained:
            raise InputError(
                f"frozen is true with encoder {name!r} without pretrained, expected false: it has new weights"
            )

    def encoder(self, name: str, saved: Mapping[str, Any] | None = None) -> tuple[nn.Module, int, dict[str, Any]]:
        side = self.height if self.height == self.width else 0
        module, width, description = build_encoder(name, self.stem, Input(self.channels, side, self.pretrained), saved)
        return Frozen(module) if self.frozen else module, width, description

    def draw_views(
        self, batch: Tensor, samples: Tensor, seed: int, epoch: Tensor | int, count: int, dtype: torch.dtype
    ) -> Tensor:
        images = self._resized_once(batch.permute(0, 3, 1, 2))
        if dtype == torch.float64:
            images = images.double() / 255
        views = self._standardised(random_views(images, samples, self.views, seed, epoch, count))
        return views.contiguous(memory_format=torch.channels_last) if views.is_cuda else views

    def inputs(self, batch: Tensor) -> Tensor:
        """Return the encoder's input for `(batch, height, width, channels)` uint8; its memory is channels-last."""
        images = self._resized_once(batch.permute(0, 3, 1, 2))
        height, width = self.height or images.shape[2], self.width or images.shape[3]
        if images.shape[2:] != (height, width):
            images = resize(images.float(), height, width, self.centre)
        return self._standardised(images.float() / 255)

    def read(self, sample: bytes | str | Path) -> Source:
        """Return a source of one image from an image file, its bytes or its path."""
        content = sample if isinstance(sample, bytes) else read_bounded(Path(sample), MOST_BYTES)
        return Source("image", decode_image(content, self.image_size)[None])

    def to(self, device: torch.device) -> None:
        if self.mean:
            constants = (torch.tensor(row, device=device)[:, None, None] for row in (self.mean, self.std))
            object.__setattr__(self, "_constants", tuple(constants))  # not a field, because it is not a setting

    def preview(self, source: Source, rows: range) -> dict[str, Any]:
        """Return images of up to 64 pixels per side unchanged, and thumbnails of at most 96 pixels of larger ones."""
        images = source.samples[np.arange(rows.start, rows.stop)]
        height, width = images.shape[1:3]
        if max(height, width) > _SMALL_SIDE:
            scale = min(1.0, _PREVIEW_SIDE / max(height, width))
            size = [max(1, round(side * scale)) for side in (height, width)]
            large = torch.from_numpy(np.array(images)).permute(0, 3, 1, 2)
            small = F.interpolate(large, size, mode="bilinear", antialias=True)
            images = small.permute(0, 2, 3, 1).contiguous().numpy()
        return {"pixels": images}

    def adapted(self, data: Any, on_gpu: bool) -> dict[str, Any]:
        """Choose an encoder and a size of the images that it sees.

        A ResNet takes 50 times the time of a small network, which only a GPU has. Images of up to 96 pixels keep their
        size, if the first ones all have the same, and a ResNet reads them with the stem for small images. Photographs
        are cached a quarter larger than their views, so that small crops stay sharp.
        """
        side, is_same = (min(data.samples.shape[1:3]), True) if isinstance(data, Source) else typical_side(data)
        smallest = _SMALL_NETWORK if not on_gpu else _SMALL_STEM
        views = side if side <= smallest else _GPU_VIEWS if on_gpu else _CPU_VIEWS
        encoder = "resnet18" if on_gpu else "convnet_8" if views < _TINY else "convnet_24"
        return {
            "encoder": encoder,
            "stem": "small" if on_gpu and views <= _SMALL_STEM else "standard",
            "image_size": round(1.25 * views) if views != side else 0 if is_same else side,
            "views": replace(self.views, size=0 if views == side else views),
        }

    def with_light_views(self) -> Self:
        """Use random resized crops and horizontal flips, as papers do for linear probes."""
        side = self.height if self.height == self.width else 0
        return replace(self, views=ViewConfig(size=side, crop_least=0.08, flip_p=0.5))

    def corrupted(self, source: Source) -> dict[str, tuple[Source, ...]]:
        return {kind: tuple(corrupted_source(source, kind, level) for level in SEVERITIES) for kind in KINDS}

    def _resized_once(self, images: Tensor) -> Tensor:
        """Convert images to the encoder's channels, and resize them to `image_size` unless the source has done so."""
        images = self._in_channels(images)
        if self.image_size and images.shape[2:] != (self.image_size, self.image_size):
            images = resize(images.float(), self.image_size, self.image_size).round().to(torch.uint8)
        return images

    def _in_channels(self, images: Tensor) -> Tensor:
        """Convert colour images to grey for a grey encoder, and grey images to equal channels for a colour encoder."""
        found, expected = images.shape[1], self.channels or images.shape[1]
        if found == expected:
            return images
        if expected == 1 and found == 3:
            return grey(images.float()).round().to(images.dtype)
        if expected == 3 and found == 1:
            return images.expand(-1, 3, -1, -1)
        raise InputError(f"the images have {found} channels, expected {expected}, as in the model")

    def _standardised(self, images: Tensor) -> Tensor:
        if not self.mean:
            return images
        constants: tuple[Tensor, Tensor] | None = getattr(self, "_constants", None)
        if constants is None or constants[0].device != images.device:
            self.to(images.device)
            return self._standardised(images)
        mean, std = constants
        return (images - mean) / std
