"""Encoder → projector → NonNegative: the model, whole, so that training and evaluation cannot differ."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.modalities import Source
from nonneg.modalities.images.encoders._backbones import timm_encoder, transformers_encoder
from nonneg.modalities.images.encoders._encoders import ENCODERS
from nonneg.modalities.images.encoders._resnet import Stem
from nonneg.models._collect import features_of
from nonneg.models._config import ModelConfig
from nonneg.models._stream import Precision
from nonneg.rectify import NonNegative

Layer = Literal["encoder", "projector"]


class Model(nn.Module):
    """A network from images to features.

    Args:
        config: what to build.
        saved: what a model's folder says of a backbone that is not ours, when its weights come from
            that folder: nothing is fetched then. Leave it out for a new model.

    Shape: `(batch, channels, height, width)` floats, normalised as `normalised` does, to
    `(batch, features)`.

    Example:
        >>> model = Model(ModelConfig("convnet_8", channels=1, features=32))
        >>> model(torch.rand(4, 1, 8, 8)).shape
        torch.Size([4, 32])
    """

    def __init__(self, config: ModelConfig, saved: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.config = config
        self.backbone: Mapping[str, Any] | None = None
        """What a backbone that is not ours needs to be built again."""
        self._on_devices: dict[torch.device, tuple[Tensor, Tensor]] = {}
        self.encoder, self.encoder_width = self._built_encoder(saved)
        self.projector = projector_of(config, self.encoder_width)
        self.classifier = nn.Linear(config.features, config.classes, bias=False) if config.classes else None

    def _built_encoder(self, saved: Mapping[str, Any] | None) -> tuple[nn.Module, int]:
        config = self.config
        if config.encoder.startswith("timm:"):
            return timm_encoder(config, download=saved is None)
        if config.encoder.startswith("transformers:"):
            module, width, self.backbone = transformers_encoder(config, saved)
            return module, width
        ours = ENCODERS[config.encoder](config.channels, cast(Stem, config.stem))
        return ours, ours.width

    def forward(self, images: Tensor, layer: Layer = "projector") -> Tensor:
        if layer not in ("encoder", "projector"):
            raise InputError(f"layer is {layer!r}, expected encoder or projector")
        h: Tensor = self.encoder(images)
        return h if layer == "encoder" else self.projector(h)

    def forward_layers(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The encoder's output `(batch, width)` and the features `(batch, features)`, in one pass."""
        h: Tensor = self.encoder(images)
        return h, self.projector(h)

    def logits(self, z: Tensor) -> Tensor:
        """The head's `(batch, classes)` for features `(batch, features)`."""
        if self.classifier is None:
            raise InputError("classes is 0: the model has no head to give logits, expected 1 class or more")
        weight = self.classifier.weight
        return F.linear(z, F.relu(weight) if self.config.rectify_weight else weight)

    def normalised(self, images: Tensor) -> Tensor:
        """What `forward` takes, from pixels.

        Shape: `(batch, height, width, channels)` uint8 to `(batch, channels, height, width)` float32,
        `(pixel / 255 - mean) / std`; the memory stays channels last, which GPUs are fastest on.
        """
        return self.standardised(images.permute(0, 3, 1, 2).float() / 255)

    def standardised(self, views: Tensor) -> Tensor:
        """What `forward` takes, from `(batch, channels, height, width)` floats in 0 to 1."""
        if not self.config.mean:
            return views
        mean, std = self._mean_and_std(views.device)
        return (views - mean) / std

    def _mean_and_std(self, device: torch.device) -> tuple[Tensor, Tensor]:
        # Kept on the device: to bring them there anew would make each batch wait for the one before.
        if device not in self._on_devices:
            with torch.inference_mode(False):
                mean, std = (torch.tensor(row, device=device) for row in (self.config.mean, self.config.std))
            self._on_devices[device] = (mean[:, None, None], std[:, None, None])
        return self._on_devices[device]

    @overload
    def embed(
        self,
        source: Source,
        layer: Layer = ...,
        batch_size: int | None = ...,
        device: str | torch.device | None = ...,
        precision: Precision = ...,
        media: bool = ...,
    ) -> Features: ...

    @overload
    def embed(
        self,
        source: Source,
        layer: Literal["both"],
        batch_size: int | None = ...,
        device: str | torch.device | None = ...,
        precision: Precision = ...,
        media: bool = ...,
    ) -> dict[Layer, Features]: ...

    def embed(
        self,
        source: Source,
        layer: Layer | Literal["both"] = "projector",
        batch_size: int | None = None,
        device: str | torch.device | None = None,
        precision: Precision = "32-true",
        media: bool = True,
    ) -> Features | dict[Layer, Features]:
        """The features of every sample, batch norm in evaluation mode.

        Images are read batch by batch and may be a memory map larger than memory.

        Args:
            source: images as uint8; normalised here.
            layer: "projector", "encoder", or "both" for a dictionary of the two from one pass.
            batch_size: samples a batch; None is 1,024, or 4,096 small images on a GPU.
            device: where to compute; None is where the model is.
            precision: "32-true" or "bf16-mixed".
            media: embed the images up to 64 pixels a side as they are, and thumbnails of larger ones.
        """
        layers: tuple[Layer, ...] = ("encoder", "projector") if layer == "both" else (layer,)
        features = features_of(
            self,
            source,
            range(len(source)),
            layers,
            batch_size=batch_size,
            device=device,
            precision=precision,
            media=media,
        )
        return features if layer == "both" else features[layer]

    def save(self, folder: str | Path) -> None:
        """Write `config.json`, `model.safetensors` and a model card, `README.md`."""
        from nonneg.models._store import save

        save(self, Path(folder))


def projector_of(config: ModelConfig, width: int) -> nn.Sequential:
    """A fresh projector of features `(batch, width)`, with the map at its end."""
    if config.projector_depth == 0 and config.features != width:
        raise InputError(
            f"features is {config.features} with projector_depth 0, expected the width of encoder"
            f" {config.encoder!r}, {width}"
        )
    projector = nn.Sequential()
    for _ in range(config.projector_depth - 1):
        projector.append(nn.Linear(width, config.projector_width, bias=not config.projector_batch_norm))
        if config.projector_batch_norm:
            projector.append(nn.BatchNorm1d(config.projector_width))
        projector.append(nn.ReLU())
        width = config.projector_width
    if config.projector_depth:
        projector.append(nn.Linear(width, config.features))
    if config.rectify != "none":
        projector.append(NonNegative(config.rectify, k=config.top_k or None))
    return projector
