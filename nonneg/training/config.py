"""`TrainConfig`: the one definition behind the command line, the TOML recipes, saved runs and the docs."""

import dataclasses
import json
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from nonneg.durable import read_bounded, read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.modalities import Modality
from nonneg.modalities.images import Images
from nonneg.models import OWN_ENCODER, ModelConfig
from nonneg.validation import build, check_fields

LEARNED_TEMPERATURES = (0.01, 1.0)  # between which learned ones stay; CLIP's lowest


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a run. All values are used exactly as given: nothing is rescaled."""

    data: str = "digits"
    """The training data: a bundled set or a path; the guide of the recipe lists what it reads."""
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    """Decides the initial weights, the order of samples and the views."""
    epochs: Annotated[int, Field(ge=1, le=2**31)] = 80
    """Passes over the data."""
    batch_size: Annotated[int, Field(ge=0)] = 256
    """Samples per update, over all processes together; 0: all. A last, smaller batch is left out."""
    accumulate: Annotated[int, Field(ge=1)] = 1
    """Parts into which a batch is divided to save memory; negatives then come from the same part only."""
    encode_rows: Annotated[int, Field(ge=0)] = 0
    """Samples whose views go through the encoder at a time, twice each (gradient caching): memory then hardly grows
    with the batch, and negatives still come from all of it; batch norm in an encoder sees each part alone. 0: all at
    once."""

    loss: Literal["info_nce", "spectral", "barlow_twins", "vicreg", "sup_con", "cross_entropy"] = "info_nce"
    """Without labels: info_nce (SimCLR), spectral, barlow_twins or vicreg. With labels: sup_con (supervised
    contrastive) or cross_entropy (one view per sample)."""
    temperature: Annotated[float, Field(gt=0)] = 0.2
    """Temperature of info_nce and sup_con."""
    learn_temperature: bool = False
    """Learn the temperatures of info_nce and sup_con, as CLIP does; `temperature` and `dense_temperature` are where
    they start, and they stay between 0.01 and 1."""
    within_weight: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """For pairs: weight of the same loss between two views of each side, such as two crops of an image; the loss
    between the sides has the remaining weight."""
    chunk_rows: Annotated[int, Field(ge=0)] = 0
    """Views whose similarities info_nce and sup_con compute at a time, so that memory grows with the batch and not with
    its square; 0: all at once."""
    rectify_weight: bool = False
    """Apply relu to the classifier's weight too, for cross_entropy."""

    encoder: str = "convnet_8"
    """For images convnet_8 or _24 (for about that many pixels per side), resnet18, 34 or 50, timm:NAME or
    transformers:NAME; for texts transformer or transformers:NAME; for graphs gcn, graphsage, gin or gat; for pairs one
    per side: resnet18+transformer."""
    projector_depth: int = 2
    """Number of linear layers of the projector; with 0 the features are the encoder's output."""
    projector_width: Annotated[int, Field(ge=1, le=2**20)] = 256
    """Width of the projector's hidden layers."""
    projector_batch_norm: bool = False
    """Batch norm after the projector's hidden layers."""
    features: Annotated[int, Field(ge=1, le=2**20)] = 128
    """Width of the projector's output."""
    rectify: Literal["none", "relu", "rep_relu", "softplus", "sigmoid", "exp", "top_k", "gelu", "leaky_relu"] = "relu"
    """The last layer of the projector. none is plain contrastive learning; gelu and leaky_relu are controls."""
    top_k: int = 0
    """Number of features per sample that stay active, for rectify top_k; 0 otherwise."""
    standardise: bool = False
    """Scale each feature to mean 0 and variance 1 over the batch, before the rectifier."""
    share: float = 0.0
    """Share of samples on which each feature is kept active, for rectify relu and rep_relu; 0 for no control."""
    first_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share at the start, which falls to `share` over the first 80% of the steps. 0: `share` from the start."""
    dense_weight: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Weight of the same loss on the features before the rectifier, which keeps the encoder as accurate as without a
    rectifier; the loss on the rectified features has the remaining weight."""
    first_dense_weight: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """That weight at the start, which falls to `dense_weight` over the first 80% of the steps. 0: `dense_weight` from
    the start."""
    dense_temperature: Annotated[float, Field(gt=0)] = 0.1
    """Temperature of the loss on the features before the rectifier, for info_nce and sup_con."""

    optimiser: Literal["adamw", "sgd", "lars"] = "adamw"
    """The algorithm that updates the weights."""
    lr: Annotated[float, Field(gt=0)] = 0.003
    """Peak learning rate, reached after the warm-up and then lowered to 0 along a cosine."""
    encoder_lr: Annotated[float, Field(gt=0)] = 1.0
    """Learning rate of the encoder, as a multiple of `lr`; below 1 for a pretrained encoder."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Momentum of sgd and lars."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0001
    """Strength of the weight decay."""
    trust: Annotated[float, Field(gt=0)] = 0.02
    """For lars: an update changes a weight tensor by at most this share of its length."""
    warmup_epochs: Annotated[int, Field(ge=0)] = 5
    """Epochs over which the learning rate rises to its peak."""

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute."""
    precision: Literal["32-true", "bf16-mixed", "64-true", "tf32"] = "32-true"
    """Numerical precision of the forward and backward pass; tf32: float32, but GPUs may round factors of matrix
    products to 11 bits, which is several times as fast."""
    compile: Literal["auto", "graph", "record", "forward", "off"] = "auto"
    """graph: compile the whole step and record it as one CUDA graph; record: only record it; forward: compile only the
    forward pass; off: neither; auto: the fastest of these."""
    data_on: Literal["auto", "device", "disk"] = "auto"
    """Where samples are kept: all on the device, or on disk and read ahead; auto: on the device if they fit."""
    checkpoint_steps: Annotated[int, Field(ge=1)] = 1000
    """Number of updates between checkpoints; one is also written when a signal stops the run."""

    modality: Modality = field(default_factory=Images)
    """The kind of samples, with its own settings."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.warmup_epochs > self.epochs:
            raise InputError(f"warmup_epochs is {self.warmup_epochs}, expected at most epochs, {self.epochs}")
        if self.batch_size == 1:
            raise InputError("batch_size is 1, expected at least 2, or 0 for all samples")
        if self.encode_rows and self.accumulate > 1:
            found = f"encode_rows is {self.encode_rows} with accumulate {self.accumulate}"
            raise InputError(f"{found}, expected only one of them: both save memory")
        if self.chunk_rows and self.loss not in ("info_nce", "sup_con"):
            raise InputError(f"chunk_rows is {self.chunk_rows} with loss {self.loss!r}, expected 0")
        if self.learn_temperature and self.loss not in ("info_nce", "sup_con"):
            raise InputError(f"learn_temperature is true with loss {self.loss!r}, which has no temperature")
        for name in ("temperature", "dense_temperature") if self.learn_temperature else ():
            least, most = LEARNED_TEMPERATURES
            if not least <= getattr(self, name) <= most:
                found = f"{name} is {getattr(self, name)} with learn_temperature"
                raise InputError(f"{found}, expected {least} to {most}, where learned ones stay")
        if not self.data.isprintable():
            raise InputError(f"data is {self.data!r}, expected a path of printable characters")
        if self.rectify_weight and self.loss != "cross_entropy":
            raise InputError(f"rectify_weight is true with loss {self.loss!r}, which has no classifier")
        for name in ("dense_weight", "first_dense_weight"):
            if getattr(self, name) and (self.rectify == "none" or self.loss == "cross_entropy"):
                found = f"{name} is {getattr(self, name)} with rectify {self.rectify!r} and loss {self.loss!r}"
                raise InputError(f"{found}, expected 0 for rectify none and for cross_entropy")
        if 0 < self.first_dense_weight < self.dense_weight:
            found = f"first_dense_weight is {self.first_dense_weight} with dense_weight {self.dense_weight}"
            raise InputError(f"{found}, expected 0, or at least dense_weight")
        if self.first_share and not 0 < self.share <= self.first_share:
            found = f"first_share is {self.first_share} with share {self.share}"
            raise InputError(f"{found}, expected 0, or at least a share above 0")
        if self.within_weight and not self.modality.sides:
            raise InputError(
                f"within_weight is {self.within_weight} for {self.modality.name}, expected 0: only for pairs"
            )
        if self.modality.sides and self.loss not in ("info_nce", "spectral"):
            raise InputError(f"loss is {self.loss!r} for {self.modality.name}, expected info_nce or spectral")
        # A network that cannot be built is reported before any data is read.
        self.model(self.modality, classes=2 if self.loss == "cross_entropy" else 0)

    def without_rectifier(self) -> "TrainConfig":
        """Return plain contrastive learning with the same other settings, its standardised output included."""
        names = ("top_k", "share", "first_share", "dense_weight", "first_dense_weight", "dense_temperature")
        defaults = {item.name: item.default for item in dataclasses.fields(self) if item.name in names}
        return self.replace(rectify="none", **defaults)

    def without_effect(self) -> list[str]:
        """Return the names of settings that were changed although nothing uses them.

        Example:
            >>> TrainConfig(loss="spectral", temperature=0.5).without_effect()
            ['temperature']
        """
        has_temperature = self.loss in ("info_nce", "sup_con")
        unused = {
            "temperature": not has_temperature,
            "dense_temperature": not has_temperature or not (self.dense_weight or self.first_dense_weight),
            "projector_width": self.projector_depth < 2,
            "momentum": self.optimiser == "adamw",
            "trust": self.optimiser != "lars",
        }
        defaults = {item.name: item.default for item in dataclasses.fields(self)}
        return [name for name, is_unused in unused.items() if is_unused and getattr(self, name) != defaults[name]]

    def model(self, modality: Modality, classes: int, encoder_width: int = 0) -> ModelConfig:
        """Return the model's config for a fitted modality and a classifier of so many classes, 0 for none."""
        return ModelConfig(
            encoder=self.encoder,
            modality=modality,
            projector_depth=self.projector_depth,
            projector_width=self.projector_width,
            projector_batch_norm=self.projector_batch_norm,
            features=self.features,
            rectify=self.rectify,
            top_k=self.top_k,
            standardise=self.standardise,
            share=self.share,
            classes=classes,
            rectify_weight=self.rectify_weight,
            encoder_width=encoder_width,
        )

    def replace(self, **changes: Any) -> "TrainConfig":
        """Return a copy with some fields changed, of the config itself or of its modality.

        Example:
            >>> load_recipe("digits").replace(epochs=20, image_size=8).modality.image_size
            8
        """
        own = {item.name for item in dataclasses.fields(self)}
        modality = {name: value for name, value in changes.items() if name not in own}
        changed = {name: value for name, value in changes.items() if name in own}
        if modality:
            base = changed.get("modality", self.modality)
            fields = {item.name: getattr(base, item.name) for item in dataclasses.fields(base)}
            changed["modality"] = build(type(base), {**fields, **modality})
        return dataclasses.replace(self, **changed)

    @property
    def has_foreign_encoder(self) -> bool:
        """Whether the encoder comes from elsewhere: it may wait for the device, or have unused parameters."""
        return ":" in self.encoder or self.encoder == OWN_ENCODER


def recipes() -> dict[str, Path]:
    """Return the paths of the package's recipes by name."""
    folder = Path(str(resources.files("nonneg") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_recipe(recipe: str) -> TrainConfig:
    """Load one of the package's recipes by name, or a TOML file by path.

    Example:
        >>> load_recipe("digits").rectify
        'relu'
    """
    known = recipes()
    path = known.get(recipe, Path(recipe))
    with read_errors_as_input_errors(path):
        if not recipe or not path.exists():
            raise InputError(f"recipe {recipe!r} is neither a file nor one of the recipes {', '.join(known)}")
    try:
        content = tomllib.loads(read_bounded(path).decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"recipe {recipe} is not TOML: {error}") from error
    try:
        config: TrainConfig = build(TrainConfig, content)
    except InputError as error:
        raise InputError(f"recipe {recipe}: {error}") from error
    return config


def as_toml(config: TrainConfig) -> str:
    """Return the whole config as TOML that `load_recipe` reads."""
    values = {item.name: getattr(config, item.name) for item in dataclasses.fields(config)}
    return _toml({**values, "modality": config.modality.to_table()})


def _toml(table: dict[str, Any], path: str = "") -> str:
    # For strings, numbers, Booleans and lists, JSON is valid TOML.
    plain = [f"{key} = {json.dumps(v, ensure_ascii=False)}\n" for key, v in table.items() if not isinstance(v, dict)]
    nested = [_toml(value, f"{path}{key}.") for key, value in table.items() if isinstance(value, dict)]
    heading = f"\n[{path.removesuffix('.')}]\n" if path else ""
    return heading + "".join(plain) + "".join(nested)
