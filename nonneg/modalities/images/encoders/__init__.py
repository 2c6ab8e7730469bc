"""Networks from images to one vector per sample, by name."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from nonneg.errors import InputError
from nonneg.modalities.images.encoders._backbones import Frozen, Input, timm_encoder, transformers_encoder
from nonneg.modalities.images.encoders._encoders import ENCODERS
from nonneg.modalities.images.encoders._resnet import ResNet, Stem

__all__ = ["ENCODERS", "Frozen", "Input", "ResNet", "Stem", "build_encoder", "check_encoder"]

_OTHER_LIBRARIES = ("timm:", "transformers:")


def check_encoder(name: str, stem: str, pretrained: bool) -> None:
    """Check a name and its settings, without building anything."""
    is_other = any(name.startswith(prefix) and name != prefix for prefix in _OTHER_LIBRARIES)
    if name not in ENCODERS and not is_other:
        known = ", ".join([*ENCODERS, *(f"{prefix}NAME" for prefix in _OTHER_LIBRARIES)])
        raise InputError(f"encoder is {name!r}, expected one of {known}")
    if stem != "standard" and not name.startswith("resnet"):
        raise InputError(f"stem is {stem!r} with encoder {name!r}, expected standard: only ResNets have other stems")
    if pretrained and not is_other:
        raise InputError(f"pretrained is true with encoder {name!r}, expected a timm: or transformers: encoder")


def build_encoder(
    name: str, stem: Stem, wanted: Input, saved: Mapping[str, Any] | None = None
) -> tuple[nn.Module, int, dict[str, Any]]:
    """Build an encoder; return it with its width and the description needed to rebuild it without the hub.

    Args:
        name: one of `ENCODERS`, `timm:NAME` or `transformers:NAME`.
        stem: the first layers of a ResNet.
        wanted: the images it is built for.
        saved: the description in a saved model; then nothing is downloaded.
    """
    if name.startswith("timm:"):
        return *timm_encoder(name, wanted, download=saved is None), {}
    if name.startswith("transformers:"):
        return transformers_encoder(name, wanted, saved)
    module = ENCODERS[name](wanted.channels, stem)
    return module, module.width, {}
