"""One config: the command line, the TOML recipes, the saved run and the docs all come from `TrainConfig`."""

import dataclasses
import difflib
import json
import math
import tomllib
import typing
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from nonneg.errors import InputError
from nonneg.modalities.images import ViewConfig, check_views
from nonneg.models import ModelConfig


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a run. What is printed is what runs; nothing is rescaled in silence."""

    data: str = "digits"
    """What to learn from: digits or shapes (both bundled), or the path of a folder, tar, Parquet or array of images."""
    image_size: int = 0
    """Side to which images are resized once, when they are cached; 0 keeps them as they are, all of one size."""
    skip_broken: bool = False
    """Leave out images that cannot be read, and record which; otherwise they are listed and nothing is trained."""
    seed: int = 0
    """Of the weights, the order of samples and the views."""
    epochs: int = 80
    batch_size: int = 256
    """Samples an update, over all processes together. A last, smaller batch is left out."""
    accumulate: int = 1
    """Parts a batch is taken in, one after the other; negatives then come from the same part only."""

    loss: Literal["info_nce", "spectral", "sup_con", "cross_entropy"] = "info_nce"
    """SimCLR's, the spectral one, and with labels: supervised contrastive, cross entropy (one view a sample)."""
    temperature: float = 0.2
    """Of info_nce and sup_con."""
    rectify_weight: bool = False
    """Whether the classifier's weight goes through relu too; of cross_entropy."""

    encoder: str = "convnet_8"
    """convnet_8 or _24 (for about so many pixels a side), resnet18, 34 or 50, timm:NAME, transformers:NAME."""
    stem: Literal["standard", "small", "small_pad_2"] = "standard"
    """How a ResNet begins: small is one 3x3 convolution for images of about 32 pixels; small_pad_2 pads it by 2."""
    pretrained: bool = False
    """Start from the published weights of a timm: or transformers: encoder."""
    projector_depth: int = 2
    """Linear layers of the projector; 0: the features are the encoder's output."""
    projector_width: int = 256
    """Width of the projector's hidden layers."""
    projector_batch_norm: bool = False
    """Batch norm after the projector's hidden layers."""
    features: int = 128
    """Width of the projector's output."""
    rectify: Literal["none", "relu", "rep_relu", "softplus", "sigmoid", "exp", "top_k", "gelu", "leaky_relu"] = "relu"
    """The map at the projector's end. none is plain contrastive learning; gelu and leaky_relu are controls."""
    top_k: int = 0
    """How many features of a sample stay active, for rectify top_k; 0 otherwise."""
    mean: tuple[float, ...] = ()
    """Subtracted from each channel of a view in 0 to 1; empty for nothing."""
    std: tuple[float, ...] = ()
    """Each channel is divided by it; empty for nothing."""

    optimiser: Literal["adamw", "sgd", "lars"] = "adamw"
    lr: float = 0.003
    """Peak learning rate, reached after the warm-up, then lowered to 0 along a cosine."""
    momentum: float = 0.9
    """Of sgd and lars."""
    weight_decay: float = 0.0001
    trust: float = 0.02
    """Of lars: a step is at most this share of a weight's length."""
    warmup_epochs: int = 5

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["32-true", "bf16-mixed", "64-true"] = "32-true"
    compile: Literal["auto", "graph", "forward", "off"] = "auto"
    """The whole step as one CUDA graph, the forward pass alone, or nothing; auto takes what is fastest here."""
    data_on: Literal["auto", "device", "disk"] = "auto"
    """Where images wait: all on the device, or on disk, read ahead; auto: on the device if they fit."""
    checkpoint_steps: int = 1000
    """A checkpoint after every so many updates, and when stopped."""

    views: ViewConfig = field(default_factory=ViewConfig)

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(TrainConfig)
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            object.__setattr__(self, item.name, _checked(hints[item.name], value, item.name))
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, float) and not math.isfinite(number):
                    raise InputError(f"{item.name} is {number}, expected a finite number")
        least = {"seed": 0, "epochs": 1, "batch_size": 2, "accumulate": 1, "image_size": 0, "checkpoint_steps": 1}
        for name, bound in {**least, "warmup_epochs": 0, "weight_decay": 0, "momentum": 0}.items():
            if getattr(self, name) < bound:
                raise InputError(f"{name} is {getattr(self, name)}, expected at least {bound}")
        most = {"seed": 2**32 - 1, "epochs": 2**31, "projector_width": 2**20, "features": 2**20, "image_size": 2**13}
        for name, bound in most.items():
            if getattr(self, name) > bound:
                raise InputError(f"{name} is {getattr(self, name)}, expected at most {bound}")
        for name in ("temperature", "lr", "trust"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}, expected more than 0")
        if self.momentum >= 1:
            raise InputError(f"momentum is {self.momentum}, expected less than 1")
        if self.warmup_epochs > self.epochs:
            raise InputError(f"warmup_epochs is {self.warmup_epochs}, expected at most epochs, {self.epochs}")
        if not self.data.isprintable():
            raise InputError(f"data is {self.data!r}, expected a path of printable characters")
        if self.rectify_weight and self.loss != "cross_entropy":
            raise InputError(f"rectify_weight is true with loss {self.loss!r}, which has no classifier")
        check_views(self.views)
        # What the network itself cannot be is refused before any image is read.
        self.model(channels=max(len(self.mean), 1), image_size=0, classes=2 if self.loss == "cross_entropy" else 0)

    def model(self, channels: int, image_size: int, classes: int) -> ModelConfig:
        """The network for images of so many channels and pixels a side; classes of a classifier, 0 for none."""
        return ModelConfig(
            encoder=self.encoder,
            stem=self.stem,
            channels=channels,
            image_size=image_size,
            resize=self.image_size,
            pretrained=self.pretrained,
            projector_depth=self.projector_depth,
            projector_width=self.projector_width,
            projector_batch_norm=self.projector_batch_norm,
            features=self.features,
            rectify=self.rectify,
            top_k=self.top_k,
            classes=classes,
            rectify_weight=self.rectify_weight,
            mean=self.mean,
            std=self.std,
        )


def recipes() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    folder = Path(str(resources.files("nonneg") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_recipe(recipe: str) -> TrainConfig:
    """A recipe of the package by its name, or a TOML file by its path.

    Example:
        >>> load_recipe("digits").rectify
        'relu'
    """
    known = recipes()
    path = known.get(recipe, Path(recipe))
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        names = ", ".join(known)
        raise InputError(f"recipe {recipe!r} is neither a file nor one of the recipes {names}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {recipe} cannot be read: {error}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"recipe {recipe} is not TOML: {error}") from error
    try:
        config: TrainConfig = _built(TrainConfig, content, "")
    except InputError as error:
        raise InputError(f"recipe {recipe}: {error}") from error
    return config


def as_toml(config: TrainConfig) -> str:
    """The whole config, to be read again by `load_recipe`."""
    plain, tables = [], []
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            lines = [f"{inner.name} = {json.dumps(getattr(value, inner.name))}" for inner in dataclasses.fields(value)]
            tables.append(f"\n[{item.name}]\n" + "\n".join(lines))
        else:
            # Of these types JSON is TOML: strings, numbers, true and false.
            plain.append(f"{item.name} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(plain + tables) + "\n"


def _built(cls: type[Any], content: dict[str, Any], prefix: str) -> Any:
    """A dataclass from a table, every key and type checked by name."""
    hints = typing.get_type_hints(cls)
    for key in content:
        if key not in hints:
            close = difflib.get_close_matches(key, hints, 1)
            hint = f"; did you mean {prefix}{close[0]}?" if close else ""
            raise InputError(f"{prefix}{key} is not a field{hint}")
    checked = {key: _checked(hints[key], value, f"{prefix}{key}") for key, value in content.items()}
    return cls(**checked)


def _checked(hint: Any, value: Any, name: str) -> Any:
    if dataclasses.is_dataclass(hint):
        if isinstance(value, typing.cast(type[Any], hint)):
            return value
        if not isinstance(value, dict):
            raise InputError(f"{name} is {value!r}, expected a table")
        return _built(typing.cast(type[Any], hint), value, f"{name}.")
    if typing.get_origin(hint) is Literal:
        if value not in typing.get_args(hint):
            raise InputError(f"{name} is {value!r}, expected one of {', '.join(map(str, typing.get_args(hint)))}")
        return value
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list | tuple) or not all(type(number) in (int, float) for number in value):
            raise InputError(f"{name} is {value!r}, expected a list of numbers")
        return tuple(float(number) for number in value)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        kind = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}[hint]
        raise InputError(f"{name} is {value!r}, expected {kind}")
    return value
