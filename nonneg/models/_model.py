"""The whole model, encoder → projector → NonNegative, used alike in training and evaluation."""

import copy
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.codes import dense
from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.messages import one_line
from nonneg.modalities import Modality, Source, as_tensors, map_arrays
from nonneg.models._collect import features_of
from nonneg.models._config import OWN_ENCODER, ModelConfig
from nonneg.models._stream import Layer, Precision, check_layer
from nonneg.rectify import NonNegative, Standardise, calibrate

_CALIBRATION = 20_000  # samples


class Model(nn.Module):
    """A network from samples to features.

    Args:
        config: the settings.
        encoder: a module from the modality's inputs to `(batch, config.encoder_width)`, for encoder "own".
        saved: the description of an encoder of another library in a saved model; then nothing is downloaded. Omit it
            for a new model.

    Shape: the result of `config.modality.inputs` to `(batch, features)`.

    Example:
        >>> from nonneg.modalities.images import Images
        >>> model = Model(ModelConfig("convnet_8", Images(channels=1), features=32))
        >>> model(torch.rand(4, 1, 8, 8)).shape
        torch.Size([4, 32])
    """

    def __init__(
        self, config: ModelConfig, encoder: nn.Module | None = None, saved: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.backbone: Mapping[str, Any] = {}
        """The description needed to rebuild an encoder of another library."""
        if (encoder is not None) != (config.encoder == OWN_ENCODER):
            expected = "a module" if encoder is None else "none, because the encoder is built by its name"
            raise InputError(
                f"encoder is {type(encoder).__name__} for a model with encoder {config.encoder!r}, expected {expected}"
            )
        if encoder is not None:
            self.encoder, self.encoder_width = config.modality.own_encoder(encoder), config.encoder_width
        else:
            self.encoder, self.encoder_width, self.backbone = config.modality.encoder(config.encoder, saved)
        self.projector = projector_of(config, self.encoder_width)
        self.classifier = nn.Linear(config.features, config.classes, bias=False) if config.classes else None

    @property
    def modality(self) -> Modality:
        """The kind of samples, and how they become the encoder's input."""
        return self.config.modality

    def forward(self, inputs: Any, layer: Layer = "projector") -> Tensor:
        check_layer(layer)
        h = encoded(self.encoder, inputs, self.encoder_width)
        return h if layer == "encoder" else self.projector(h)

    def forward_layers(self, inputs: Any) -> tuple[Tensor, Tensor]:
        """Return the encoder's output `(batch, encoder_width)` and the features `(batch, features)`, from one pass."""
        h, _, z = self.forward_all(inputs)
        return h, z

    def forward_all(self, inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return the encoder's output, the features before the rectifier, and the features, from one pass."""
        h = encoded(self.encoder, inputs, self.encoder_width)
        return h, *self.project_all(h)

    def project_all(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features before the rectifier, and the features, of the encoder's output `(batch, encoder_width)`.

        Without a rectifier, they are the same.
        """
        if self.config.rectify == "none":
            z = self.projector(h)
            return z, z
        *layers, rectifier = self.projector
        before = h
        for layer in layers:
            before = layer(before)
        return before, rectifier(before)

    def head(self) -> Tensor:
        """Return the classifier's weight `(classes, features)`, rectified if the config says so."""
        if self.classifier is None:
            raise InputError("classes is 0: the model has no classifier, expected 1 class or more")
        weight = self.classifier.weight
        return F.relu(weight) if self.config.rectify_weight else weight.clone()

    def logits(self, z: Tensor) -> Tensor:
        """Return the classifier's output `(batch, classes)` for features `(batch, features)`."""
        return F.linear(z, self.head())

    def open(
        self,
        data: Any,
        split: str = "train",
        *,
        side: str = "",
        skip_broken: bool | None = None,
        progress: bool = True,
    ) -> Source:
        """Open data to embed with the model's modality; of pairs, one side, by default the first."""
        return self.modality.side(side).open(data, split, skip_broken=skip_broken, progress=progress)

    @overload
    def embed(
        self,
        source: Any,
        layer: Layer = ...,
        batch_size: int | None = ...,
        device: str | torch.device | None = ...,
        precision: Precision = ...,
        media: bool = ...,
        side: str = ...,
    ) -> Features: ...

    @overload
    def embed(
        self,
        source: Any,
        layer: Literal["both"],
        batch_size: int | None = ...,
        device: str | torch.device | None = ...,
        precision: Precision = ...,
        media: bool = ...,
        side: str = ...,
    ) -> dict[Layer, Features]: ...

    def embed(
        self,
        source: Any,
        layer: Layer | Literal["both"] = "projector",
        batch_size: int | None = None,
        device: str | torch.device | None = None,
        precision: Precision = "32-true",
        media: bool = True,
        side: str = "",
    ) -> Features | dict[Layer, Features]:
        """Return the features of every sample, with batch norm in evaluation mode.

        Samples are read batch by batch and may be a memory map larger than memory.

        Args:
            source: a `Source`, or data for `open`.
            layer: "projector", "encoder", or "both" for a dictionary of the two from one pass.
            batch_size: samples per batch; None chooses it.
            device: where to compute; None is the model's device.
            precision: "32-true" or "bf16-mixed".
            media: store the samples' previews (images, thumbnails, texts) with the features, and what the page says
                about each feature.
            side: for a model of pairs, which side of them, such as image or text; by default the first.
        """
        layers: tuple[Layer, ...] = ("encoder", "projector") if layer == "both" else (layer,)
        source = self.open(source, side=side)
        found = features_of(
            self,
            source,
            range(len(source)),
            layers,
            batch_size=batch_size,
            device=device,
            precision=precision,
            media=media,
        )
        return found if layer == "both" else found[layer]

    def calibrate(self, source: Source) -> None:
        """Make each feature active on its share of these samples, as `embed` sees them, if the model has a share.

        The encoder is first adjusted to each side of pairs. Uses at most 20,000 samples, spread over the source, and
        fewer with more than 4,096 features.
        """
        if not self.config.share and not self.modality.sides:
            return
        most = min(_CALIBRATION, _CALIBRATION * 4096 // self.config.features)
        rows = np.unique(np.linspace(0, len(source) - 1, min(len(source), most)).astype(np.int64))
        some = source.take(rows)
        outputs = []
        for side in self.modality.sides or ("",):
            codes = self.embed(some, "encoder", media=False, side=side).codes
            h = torch.tensor(dense(codes))
            outputs.append(self.modality.calibrated(self.encoder, side, h.to(next(self.parameters()))))
        if self.config.share:
            *layers, standardise, rectifier = self.projector
            assert isinstance(standardise, Standardise) and isinstance(rectifier, NonNegative)  # `ModelConfig` demands
            with torch.no_grad():
                calibrate(standardise, rectifier, nn.Sequential(*layers).eval()(torch.cat(outputs)))

    def at_share(self, share: float, source: Any) -> "Model":
        """Return a copy in which each feature is active on another share of these samples.

        Nothing is trained: thresholds, means and variances are set for these samples. A higher share keeps more of what
        the network knows, a lower one is easier to read.

        Args:
            share: between 0 and 1.
            source: the samples to count, best those of training: a `Source`, or data for `open`.
        """
        if not self.config.share:
            raise InputError("at_share: the model has no share, expected one that was trained with a share")
        if not 0 < share < 1:
            raise InputError(f"at_share: share is {share}, expected a number between 0 and 1")
        copied = copy.deepcopy(self)
        copied.config = dataclasses.replace(self.config, share=share)
        rectifier = copied.projector[-1]
        assert isinstance(rectifier, NonNegative)
        rectifier.share = share
        rectifier.target.fill_(share)
        copied.calibrate(self.modality.open(source))  # with all sides of pairs
        return copied

    def save(self, folder: str | Path) -> None:
        """Write `config.json`, `model.safetensors` and a model card, `README.md`."""
        from nonneg.models._store import save

        save(self, Path(folder))


def output_width(encoder: nn.Module, modality: Modality, source: Source) -> int:
    """Return the width of an encoder's output, found by running it on two samples in evaluation mode."""
    encoder = modality.own_encoder(encoder)
    was_training, device = encoder.training, next(encoder.parameters(), torch.empty(0)).device
    batch = as_tensors(source.samples[[0, min(1, len(source) - 1)]])
    try:
        with torch.no_grad():
            inputs = modality.inputs(map_arrays(lambda part: part.to(device), batch))
            output = encoded(encoder.eval(), inputs)
    finally:
        encoder.train(was_training)
    rows = 2 * max(1, len(modality.sides))
    if len(output) != rows:
        raise InputError(f"encoder {type(encoder).__name__} returns {len(output)} rows for 2 samples, expected {rows}")
    return output.shape[1]


def encoded(encoder: nn.Module, inputs: Any, width: int | None = None) -> Tensor:
    """Return an encoder's output `(batch, width)`; any error names the encoder and the shape of its input."""
    try:
        h = encoder(inputs)
    except (InputError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a module of the caller may raise anything
        shape = map_arrays(lambda part: tuple(part.shape), inputs)
        raise InputError(
            f"encoder {type(encoder).__name__} cannot take inputs of shape {shape}: {one_line(error)}"
        ) from error
    if not isinstance(h, Tensor) or h.ndim != 2 or width not in (None, h.shape[1]):
        found = tuple(h.shape) if isinstance(h, Tensor) else f"a {type(h).__name__}"
        raise InputError(f"encoder {type(encoder).__name__} returns {found}, expected (batch, {width or 'width'})")
    return h


def projector_of(config: ModelConfig, width: int) -> nn.Sequential:
    """Create the projector for encoder outputs `(batch, width)`, which ends in the non-negative map."""
    if config.projector_depth == 0 and config.features != width:
        raise InputError(
            f"features is {config.features} with projector_depth 0, expected the width of encoder"
            f" {config.encoder!r}, {width}"
        )
    projector = nn.Sequential()
    if config.modality.sides:
        # A sample that the encoder knows little about, such as a text of new words, has a short output: few features
        # would exceed their thresholds, and it would hardly be found.
        projector.append(nn.RMSNorm(width, elementwise_affine=False))
    for _ in range(config.projector_depth - 1):
        projector.append(nn.Linear(width, config.projector_width, bias=not config.projector_batch_norm))
        if config.projector_batch_norm:
            projector.append(nn.BatchNorm1d(config.projector_width))
        projector.append(nn.ReLU())
        width = config.projector_width
    if config.projector_depth:
        projector.append(nn.Linear(width, config.features))
    if config.standardise:
        projector.append(Standardise(config.features))
    if config.rectify != "none":
        share, features = (config.share, config.features) if config.share else (None, None)
        projector.append(NonNegative(config.rectify, config.top_k or None, share, features))
    return projector
