"""`Modality`: the five questions that a kind of samples answers, and nothing else in the package does."""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.modalities._source import Source
from nonneg.validation import build, check_fields

# The one place outside its folder where a modality of the package is named; imported when first asked for.
_HOMES = {"images": "nonneg.modalities.images", "own": "nonneg.modalities.own"}
_REGISTERED: dict[str, type["Modality"]] = {}


@dataclass(frozen=True)
class Modality:
    """A kind of samples. Subclass it as a frozen dataclass: its fields are its part of the config.

    A batch is whatever `Source.samples[rows]` gives: an array, or a tuple or dictionary of arrays, whose first axis
    runs over samples. Outside `open`, `read` and `preview` its arrays are tensors on the device.

    The base class answers what has a general answer; a subclass must define `draw_views`, and `encoder` unless every
    training is given an encoder of its own. `examples/own_modality.py` is a complete one for time series.
    """

    name: ClassVar[str] = ""
    """What configs and saved models call it."""

    def __post_init__(self) -> None:
        check_fields(self)

    # 1. Source

    def open(
        self, data: Any, split: str = "train", *, skip_broken: bool | None = None, progress: bool = True
    ) -> Source:
        """Samples from whatever `data` names.

        Args:
            data: what the modality can read, or a `Source`.
            split: of the data: train (everything, if the data has no splits), test, ….
            skip_broken: leave out samples that cannot be read; None does as the settings say.
            progress: show a progress bar where reading takes long.
        """
        if isinstance(data, Source):
            return data
        raise InputError(f"data is {data!r}, expected a Source: {self.name or type(self).__name__} reads no files")

    def fitted(self, source: Source) -> Self:
        """The same modality with everything it must know of the data filled in, such as an image's channels.

        A model is built from the fitted modality and saved with it.
        """
        return self

    # 2. Views

    def draw_views(
        self, batch: Any, samples: Tensor, seed: int, epoch: Tensor | int, count: int, dtype: torch.dtype
    ) -> Any:
        """What the loss compares: the first views of all samples, then the second ones, as the encoder takes them.

        Views follow from (seed, epoch, sample, view) alone, so that nothing changes when a batch is split, compiled
        or resumed; `nonneg.modalities.uniform` draws such numbers. Runs on the device, inside the compiled step.

        Args:
            batch: of samples.
            samples: `(batch,)` int64, their numbers in the source.
            seed, epoch: of the training; epoch may be a tensor on the device.
            count: views per sample.
            dtype: of the views.
        """
        raise NotImplementedError

    def load_views(self, source: Source, rows: Tensor, seed: int, epoch: int, count: int) -> Iterator[Any] | None:
        """Batches that already hold views, for views that cannot be drawn on the device; usually None.

        Args:
            source: the samples.
            rows: `(steps, batch)` int64 row numbers.
            seed, epoch, count: as for `draw_views`, which gets these batches.
        """
        return None

    # 3. Encoder

    def check_encoder(self, name: str) -> None:
        """Check an encoder's name before any data is read; an `InputError` says what was expected."""

    def encoder(self, name: str, saved: Mapping[str, Any] | None = None) -> tuple[nn.Module, int, dict[str, Any]]:
        """The encoder of this name: a module from views to `(views, width)`, its width, and how to build it again.

        Args:
            name: of the encoder.
            saved: what a saved model's folder says about how to build it; nothing is downloaded then.
        """
        raise InputError(f"encoder is {name!r}, expected a module: {self.name or type(self).__name__} has none by name")

    # 4. Preprocessing

    def inputs(self, batch: Any) -> Any:
        """What the encoder takes outside training, from a batch of samples. The one preprocessing."""
        return batch

    def read(self, sample: Any) -> Source:
        """A source of one sample, from the form in which a person gives it (an image file's bytes, a text)."""
        raise InputError(f"{self.name or type(self).__name__} cannot encode a {type(sample).__name__}")

    def to(self, device: torch.device) -> None:
        """Called before work begins on a device, to bring constants there."""

    # 5. Preview

    def preview(self, source: Source, rows: range) -> dict[str, Any]:
        """Something to look at for each of these samples: `pixels`, `media` or `texts`, as `Features` takes them."""
        return {}

    # For evaluation

    def with_light_views(self) -> Self:
        """The same modality with the views on which a classifier is trained; by default those of training."""
        return self

    def corrupted(self, source: Source) -> dict[str, tuple[Source, ...]]:
        """Corrupted versions of a source, by kind and from mild to severe, to measure robustness; usually none."""
        return {}

    # Saving

    def to_table(self) -> dict[str, Any]:
        """Its name and fields, as TOML and JSON hold them."""
        return {"name": self.name, **asdict(self)}

    @classmethod
    def from_table(cls, content: Mapping[str, Any], prefix: str = "") -> "Modality":
        """What `to_table` gave; the name decides the class."""
        fields = dict(content)
        name = fields.pop("name", cls.name or "images")
        if name != cls.name and name in _HOMES:
            importlib.import_module(_HOMES[name])
        kind = cls if name == cls.name else _REGISTERED.get(name)
        if kind is None:
            known = ", ".join(dict.fromkeys((*_HOMES, *_REGISTERED)))
            raise InputError(f"{prefix}name is {name!r}, expected one of {known}")
        made: Modality = build(kind, fields, prefix)
        return made


def register(kind: type[Modality]) -> type[Modality]:
    """Make a modality known by its name, so that recipes and saved models can name it; a class decorator."""
    _REGISTERED[kind.name] = kind
    return kind
