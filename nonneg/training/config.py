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
from nonneg.views import ViewConfig


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a run. What is printed is what runs; nothing is rescaled in silence."""

    data: str = "digits"
    """What to learn from: digits or shapes (both bundled)."""
    seed: int = 0
    """Of the weights, the order of samples and the views."""
    epochs: int = 80
    batch_size: int = 256
    """Samples a step; each gives two views. A last, smaller batch is left out."""

    loss: Literal["info_nce", "spectral"] = "info_nce"
    temperature: float = 0.2
    """Of info_nce."""

    encoder: Literal["convnet_8", "convnet_24"] = "convnet_8"
    """Three convolutions, for images of about 8 or about 24 pixels a side."""
    projector_width: int = 256
    """Width of the projector's hidden layer."""
    features: int = 128
    """Width of the projector's output."""
    rectify: Literal["none", "relu", "rep_relu", "softplus", "sigmoid", "exp", "top_k", "gelu", "leaky_relu"] = "relu"
    """The map at the projector's end. none is plain contrastive learning; gelu and leaky_relu are controls."""
    top_k: int = 0
    """How many features of a sample stay active, for rectify top_k; 0 otherwise."""

    lr: float = 0.003
    """AdamW's peak learning rate, reached after the warm-up, then lowered to 0 along a cosine."""
    weight_decay: float = 0.0001
    warmup_epochs: int = 5

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["32-true", "bf16-mixed"] = "32-true"

    views: ViewConfig = field(default_factory=ViewConfig)

    def __post_init__(self) -> None:
        for owner, prefix in ((self, ""), (self.views, "views.")):
            for item in dataclasses.fields(owner):
                value = getattr(owner, item.name)
                if isinstance(value, float) and not math.isfinite(value):
                    raise InputError(f"{prefix}{item.name} is {value}, expected a finite number")
        least = {"seed": 0, "epochs": 1, "batch_size": 2, "projector_width": 1, "features": 1, "top_k": 0}
        for name, bound in {**least, "warmup_epochs": 0, "weight_decay": 0}.items():
            if getattr(self, name) < bound:
                raise InputError(f"{name} is {getattr(self, name)}, expected at least {bound}")
        most = {"seed": 2**32 - 1, "epochs": 2**31, "projector_width": 2**20, "features": 2**20}
        for name, bound in most.items():
            if getattr(self, name) > bound:
                raise InputError(f"{name} is {getattr(self, name)}, expected at most {bound}")
        for name in ("temperature", "lr"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}, expected more than 0")
        if self.warmup_epochs > self.epochs:
            raise InputError(f"warmup_epochs is {self.warmup_epochs}, expected at most epochs, {self.epochs}")
        if (self.rectify == "top_k") != (self.top_k > 0):
            raise InputError(f"top_k is {self.top_k} with rectify {self.rectify!r}; top_k needs 1 or more, others 0")
        if self.top_k > self.features:
            raise InputError(f"top_k is {self.top_k}, expected at most features, {self.features}")
        for view in dataclasses.fields(ViewConfig):
            if getattr(self.views, view.name) < 0:
                raise InputError(f"views.{view.name} is {getattr(self.views, view.name)}, expected at least 0")
        if self.views.scale >= 1:
            raise InputError(f"views.scale is {self.views.scale}, expected less than 1")


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
    return cls(**{key: _checked(hints[key], value, f"{prefix}{key}") for key, value in content.items()})


def _checked(hint: Any, value: Any, name: str) -> Any:
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise InputError(f"{name} is {value!r}, expected a table")
        return _built(typing.cast(type[Any], hint), value, f"{name}.")
    if typing.get_origin(hint) is Literal:
        if value not in typing.get_args(hint):
            raise InputError(f"{name} is {value!r}, expected one of {', '.join(map(str, typing.get_args(hint)))}")
        return value
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        kind = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}[hint]
        raise InputError(f"{name} is {value!r}, expected {kind}")
    return value
