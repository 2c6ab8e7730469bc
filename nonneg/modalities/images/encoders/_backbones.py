"""Encoders of other libraries, `timm:NAME` and `transformers:NAME`; each needs an extra."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.messages import one_line
from nonneg.modalities._transformers import cleaned, from_settings, settings_of, with_weights

_DEFAULT_SIDE = 224


class Input(NamedTuple):
    """The images that an encoder is built for.

    Attributes:
        channels: number of channels.
        side: height and width in pixels; 0 if they differ or are unknown.
        pretrained: start from the published weights.
    """

    channels: int
    side: int
    pretrained: bool


def timm_encoder(encoder: str, wanted: Input, download: bool) -> tuple[nn.Module, int]:
    """Build a timm model without its head; return it with its width.

    Args:
        encoder: `timm:NAME`.
        wanted: the images; networks for one image size, such as ViTs, are built for their side.
        download: download the published weights, if `wanted.pretrained` is true.
    """
    timm = import_extra("timm", encoder)
    name = encoder.removeprefix("timm:")
    # Only registered names: timm would also accept names of hubs and folders, and download from there.
    if re.fullmatch(r"[\w.-]+", name) is None or not timm.is_model(name):
        raise InputError(f"encoder is {encoder!r}, which timm {timm.__version__} does not have")
    try:
        published = timm.models.get_pretrained_cfg(name)
        options: dict[str, Any] = {"num_classes": 0, "in_chans": wanted.channels}
        if wanted.side and published.fixed_input_size and wanted.side != published.input_size[-1]:
            options["img_size"] = wanted.side
        if wanted.pretrained and download:
            # Only this file: timm would fall back to a pickle.
            file = "open_clip_model" if "open_clip" in (published.hf_hub_filename or "") else "model"
            options["pretrained_cfg_overlay"] = {
                "url": "",
                "hf_hub_filename": f"{file}.safetensors",
                "custom_load": False,
            }
        module = timm.create_model(name, pretrained=wanted.pretrained and download, **options)
        return module, int(getattr(module, "head_hidden_size", module.num_features))
    except Exception as error:  # timm raises whatever its models, the network or the file system raise
        raise InputError(f"encoder {encoder!r} cannot be built: {one_line(error)}") from error


class Frozen(nn.Module):
    """An encoder whose weights and statistics stay as they are, until its parameters require gradients again.

    Example:
        >>> encoder = Frozen(nn.BatchNorm1d(3)).train()
        >>> encoder.module.training, any(p.requires_grad for p in encoder.parameters())
        (False, False)
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module.requires_grad_(False)

    def train(self, mode: bool = True) -> "Frozen":
        is_frozen = not any(parameter.requires_grad for parameter in self.module.parameters())
        super().train(mode)
        if is_frozen:
            self.module.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x)  # type: ignore[no-any-return]


class PooledTransformer(nn.Module):
    """A vision model of transformers that returns one vector per sample.

    The vector is the model's `pooler_output` if it has one, otherwise the class token of the last layer, otherwise
    the mean over tokens or positions.

    Shape: `(batch, channels, height, width)` to `(batch, width)`.
    """

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        tokens = ("cls_token", "class_token", "class_embedding")
        self.has_class_token = any(name.endswith(tokens) for name, _ in backbone.named_parameters())

    def forward(self, x: Tensor) -> Tensor:
        output = self.backbone(pixel_values=x)
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        if pooled is None:
            hidden: Tensor = output.last_hidden_state
            if hidden.ndim == 4:
                pooled = hidden.mean((2, 3))
            else:
                pooled = hidden[:, 0] if self.has_class_token else hidden.mean(1)
        return pooled.flatten(1)


def transformers_encoder(
    encoder: str, wanted: Input, saved: Mapping[str, Any] | None
) -> tuple[PooledTransformer, int, dict[str, Any]]:
    """Build a vision model of transformers; return it with its width and the description needed to rebuild it.

    Args:
        encoder: `transformers:NAME`, a model on the hub or a folder.
        wanted: the images it is built for.
        saved: the description in a saved model; then nothing is downloaded.
    """
    transformers = import_extra("transformers", encoder)
    name = encoder.removeprefix("transformers:")
    has_pooler = True
    try:
        if saved is not None:
            has_pooler = bool(saved.get("pooler", True))
            settings = settings_of(transformers, saved.get("config"))
            backbone = from_settings(transformers, settings)
        else:
            found = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
            found = getattr(found, "vision_config", found)  # the image model of CLIP and similar ones
            settings = settings_of(transformers, {"model_type": found.model_type, **found.to_dict()})
            _fit_images(settings, wanted)
            if wanted.pretrained:
                backbone, missing = with_weights(transformers, name, settings)
                # Classifiers are published without the pooler, which would then be random.
                has_pooler = not any(key.startswith("pooler.") for key in missing)
            else:
                backbone = from_settings(transformers, settings)
        if backbone.main_input_name != "pixel_values":
            raise InputError(f"its input is {backbone.main_input_name}, expected a model of images (pixel_values)")
        if not has_pooler:
            backbone.pooler = None
        width = _width(transformers, settings, wanted, has_pooler)
    except Exception as error:  # as above
        raise InputError(f"encoder {encoder!r} cannot be built: {one_line(error)}") from error
    description = {"config": cleaned(settings.to_dict()), "pooler": has_pooler}
    return PooledTransformer(backbone), width, description


def _fit_images(settings: Any, wanted: Input) -> None:
    """Set the channels and side of the images for new weights; raise an error if published weights differ."""
    expected = {"num_channels": wanted.channels, "image_size": wanted.side}
    for name, value in expected.items():
        found = getattr(settings, name, None)
        if not value or not isinstance(found, int) or found == value:
            continue
        if wanted.pretrained:
            ours = "channels" if name == "num_channels" else name
            raise InputError(f"{ours} is {value}, expected {found} for its published weights")
        setattr(settings, name, value)
    if hasattr(settings, "mask_ratio"):
        settings.mask_ratio = 0.0  # a masked autoencoder would hide most of each image


def _width(transformers: Any, settings: Any, wanted: Input, has_pooler: bool) -> int:
    """Find the output width by a pass on the meta device, because each family of models names it differently."""
    side = getattr(settings, "image_size", None) or wanted.side or _DEFAULT_SIDE
    height, width = side if isinstance(side, list | tuple) else (side, side)
    with torch.device("meta"), torch.no_grad():
        shadow = from_settings(transformers, settings)
        if not has_pooler:
            shadow.pooler = None
        return int(PooledTransformer(shadow).eval()(torch.empty(1, wanted.channels, height, width)).shape[1])
