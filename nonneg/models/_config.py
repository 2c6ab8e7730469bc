"""`ModelConfig`: everything needed to rebuild a network, checked by name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any

from pydantic import Field

from nonneg.errors import InputError
from nonneg.modalities import Modality
from nonneg.rectify import KINDS, WITH_SHARE
from nonneg.validation import build, check_fields

FORMAT = 2
OWN_ENCODER = "own"
"""The name of an encoder that the user brings."""
_OTHER_KEYS = ("format", "backbone", "modality", "sha256", "checksum")  # of a `config.json`


@dataclass(frozen=True)
class ModelConfig:
    """Everything needed to rebuild a network.

    Example:
        >>> from nonneg.modalities.images import Images
        >>> ModelConfig("resnet18", Images(channels=3, stem="small"), features=128).rectify
        'relu'
    """

    encoder: str
    """The name of one of the modality's encoders, or "own" for a module that the caller passes."""
    modality: Modality
    """The kind of samples, fitted to the data: how they become the encoder's input."""
    projector_width: Annotated[int, Field(ge=1)] = 2048
    """Width of the projector's hidden layers."""
    features: Annotated[int, Field(ge=1)] = 256
    """Width of the projector's output."""
    rectify: str = "relu"
    """A kind of `NonNegative`, or "none" for plain contrastive learning."""
    top_k: Annotated[int, Field(ge=0)] = 0
    """Number of features per sample that stay active, for rectify "top_k"; 0 otherwise."""
    share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of samples on which each feature is kept active, for rectify "relu" and "rep_relu"; 0 for no control."""
    standardise: bool = False
    """Scale each feature to mean 0 and variance 1 over the batch, before the rectifier."""
    projector_depth: Annotated[int, Field(ge=0, le=16)] = 2
    """Number of linear layers of the projector; with 0 the encoder's output is rectified."""
    projector_batch_norm: bool = False
    """Batch norm after each hidden layer of the projector, which then has no bias."""
    classes: Annotated[int, Field(ge=0)] = 0
    """Number of classes of the linear head on the features, for supervised learning; 0 for no head."""
    rectify_weight: bool = False
    """Apply relu to the head's weight before it is used."""
    encoder_width: Annotated[int, Field(ge=0)] = 0
    """Width of the encoder's output, for encoder "own"; 0 for encoders by name, whose width is known."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.encoder != OWN_ENCODER:
            self.modality.check_encoder(self.encoder)
        if self.projector_batch_norm and self.projector_depth < 2:
            raise InputError(
                f"projector_batch_norm is true with projector_depth {self.projector_depth}, expected 2 or more:"
                " it follows hidden layers"
            )
        if self.rectify not in ("none", *KINDS):
            raise InputError(f"rectify is {self.rectify!r}, expected one of none, {', '.join(KINDS)}")
        if (self.rectify == "top_k") != (self.top_k > 0):
            expected = "1 or more" if self.rectify == "top_k" else "0"
            raise InputError(f"top_k is {self.top_k} with rectify {self.rectify!r}, expected {expected}")
        if self.top_k > self.features:
            raise InputError(f"top_k is {self.top_k}, expected at most features, {self.features}")
        if self.share and (self.rectify not in WITH_SHARE or not self.standardise):
            found = f"share is {self.share} with rectify {self.rectify!r} and standardise {self.standardise}"
            raise InputError(f"{found}, expected rectify {' or '.join(WITH_SHARE)} and standardise True")
        if self.rectify_weight and not self.classes:
            raise InputError("rectify_weight is true with classes 0, expected a head of 1 class or more")


def to_json(config: ModelConfig, backbone: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a `config.json`."""
    content = {"format": FORMAT, **asdict(config), "modality": config.modality.to_table()}
    return {**content, "backbone": dict(backbone)} if backbone else content


def from_json(content: Any, modality: type[Modality] = Modality) -> tuple[ModelConfig, dict[str, Any]]:
    """Return the config in a `config.json`, and the description needed to rebuild an encoder of another library.

    Args:
        content: the content of the file.
        modality: the class to use, for a modality that is not registered.
    """
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else content
        raise InputError(f"its format is {found!r}, expected {FORMAT}")
    rest = {key: value for key, value in content.items() if key not in _OTHER_KEYS}
    for name in (field.name for field in fields(ModelConfig)):
        if name not in content:
            raise InputError(f"{name} is missing")
    if not isinstance(content["modality"], dict) or not isinstance(content.get("backbone", {}), dict):
        raise InputError("modality and backbone are expected to be objects")
    kind = modality.from_table(content["modality"], "modality.")
    return build(ModelConfig, {**rest, "modality": kind}), content.get("backbone", {})
