"""`ModelConfig`: everything needed to build a network again, checked by name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from nonneg.errors import InputError
from nonneg.modalities.images.encoders._encoders import ENCODERS, EXTRA_ENCODERS
from nonneg.modalities.images.encoders._resnet import STEMS
from nonneg.rectify import KINDS

FORMAT = 1
_DEEPEST_PROJECTOR = 16


@dataclass(frozen=True)
class ModelConfig:
    """Everything needed to build the network again.

    Example:
        >>> ModelConfig("resnet18", channels=3, stem="small", features=128).rectify
        'relu'
    """

    encoder: str
    """One of `ENCODERS`, or `timm:NAME`, or `transformers:NAME`."""
    channels: int
    """Of the images: 1 is grey, 3 are RGB."""
    projector_width: int = 2048
    """Width of the projector's hidden layers."""
    features: int = 256
    """Width of the projector's output."""
    rectify: str = "relu"
    """A kind of `NonNegative`, or "none" for plain contrastive learning."""
    top_k: int = 0
    """How many features stay active, for rectify "top_k"; 0 otherwise."""
    stem: str = "standard"
    """How a ResNet begins: standard, small or small_pad_2. Other encoders know only standard."""
    image_size: int = 0
    """Side of the images the network was trained on; 0 is not known, whatever comes."""
    resize: int = 0
    """Side to which images were resized before views of `image_size` were cut out of them; 0 is not at all."""
    pretrained: bool = False
    """Begin with the encoder's published weights, for timm: and transformers:."""
    projector_depth: int = 2
    """Linear layers of the projector; 0 is none, and then the encoder's output is rectified."""
    projector_batch_norm: bool = False
    """Batch norm after each hidden layer of the projector, which then has no bias."""
    classes: int = 0
    """Classes of the linear head on the features, for supervised learning; 0 is no head."""
    rectify_weight: bool = False
    """Whether the head's weight goes through relu before it is used."""
    mean: tuple[float, ...] = ()
    """Subtracted from each channel, of pixels in 0 to 1; empty is nothing."""
    std: tuple[float, ...] = ()
    """Each channel is divided by it then; empty is nothing."""

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            object.__setattr__(self, name, _floats(name, getattr(self, name), self.channels))
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in _TYPES and type(value) is not field.type:
                raise InputError(f"{field.name} is {value!r}, expected {_TYPES[field.type]}")
        least = {"channels": 1, "projector_width": 1, "features": 1, "top_k": 0, "image_size": 0, "classes": 0}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise InputError(f"{name} is {getattr(self, name)}, expected at least {bound}")
        self._check_encoder()
        self._check_projector()
        if self.rectify_weight and not self.classes:
            raise InputError("rectify_weight is true with classes 0, expected a head of 1 class or more")
        if bool(self.mean) != bool(self.std):
            raise InputError(f"mean is {self.mean} and std is {self.std}, expected both or neither")
        if not all(value > 0 for value in self.std):
            raise InputError(f"std is {self.std}, expected more than 0 for each channel")

    def _check_encoder(self) -> None:
        is_extra = any(self.encoder.startswith(prefix) and self.encoder != prefix for prefix in EXTRA_ENCODERS)
        if self.encoder not in ENCODERS and not is_extra:
            known = ", ".join([*ENCODERS, *(f"{prefix}NAME" for prefix in EXTRA_ENCODERS)])
            raise InputError(f"encoder is {self.encoder!r}, expected one of {known}")
        if self.stem not in STEMS:
            raise InputError(f"stem is {self.stem!r}, expected one of {', '.join(STEMS)}")
        if self.stem != "standard" and not self.encoder.startswith("resnet"):
            raise InputError(
                f"stem is {self.stem!r} with encoder {self.encoder!r}, expected standard: other stems are of resnets"
            )
        if self.pretrained and not is_extra:
            raise InputError(
                f"pretrained is true with encoder {self.encoder!r}, expected one of {' or '.join(EXTRA_ENCODERS)}"
            )

    def _check_projector(self) -> None:
        if not 0 <= self.projector_depth <= _DEEPEST_PROJECTOR:
            raise InputError(f"projector_depth is {self.projector_depth}, expected 0 to {_DEEPEST_PROJECTOR}")
        if self.projector_batch_norm and self.projector_depth < 2:
            raise InputError(
                f"projector_batch_norm is true with projector_depth {self.projector_depth}, expected 2 or more:"
                " it follows hidden layers"
            )
        if self.rectify not in ("none", *KINDS):
            raise InputError(f"rectify is {self.rectify!r}, expected one of none, {', '.join(KINDS)}")
        if (self.rectify == "top_k") != (self.top_k > 0):
            raise InputError(f"top_k is {self.top_k} with rectify {self.rectify!r}; top_k needs 1 or more, others 0")
        if self.top_k > self.features:
            raise InputError(f"top_k is {self.top_k}, expected at most features, {self.features}")


_TYPES: dict[Any, str] = {str: "a string", int: "a whole number", bool: "true or false"}


def _floats(name: str, values: Any, channels: int) -> tuple[float, ...]:
    """Finite floats, one a channel or none; JSON makes lists of tuples and people write 0 for 0.0."""
    is_row = isinstance(values, list | tuple) and all(type(value) in (int, float) for value in values)
    if not is_row or len(values) not in (0, channels) or not all(abs(value) < 1e30 for value in values):
        raise InputError(f"{name} is {values!r}, expected a finite number for each of the {channels} channels, or none")
    return tuple(float(value) for value in values)


def to_json(config: ModelConfig, backbone: Mapping[str, Any] | None) -> dict[str, Any]:
    """The content of a `config.json`."""
    return {"format": FORMAT, **asdict(config), **({"backbone": dict(backbone)} if backbone else {})}


def from_json(content: Any) -> tuple[ModelConfig, dict[str, Any]]:
    """The config in a `config.json`, and what it says of a backbone that is not ours."""
    expected = [field.name for field in fields(ModelConfig)]
    if not isinstance(content, dict) or not {"encoder", "channels"} <= set(content):
        raise InputError(f"expected the fields {', '.join(expected)}")
    values = dict(content)
    version, backbone = values.pop("format", None), values.pop("backbone", {})
    if version != FORMAT:
        raise InputError(f"it is of format {version!r}, this nonneg reads format {FORMAT}")
    unknown = sorted(set(values) - set(expected))
    if unknown:
        raise InputError(f"{unknown[0]!r} is not a field, expected the fields {', '.join(expected)}")
    if not isinstance(backbone, dict):
        raise InputError(f"backbone is a {type(backbone).__name__}, expected an object")
    return ModelConfig(**values), backbone
