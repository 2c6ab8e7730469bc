"""`Modality`: everything that depends on the kind of samples, in five questions."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.modalities._source import Source
from nonneg.validation import build, check_fields

# The only place outside its folder where a modality of the package is named; it is imported when first used.
_HOMES = {
    "images": "nonneg.modalities.images",
    "own": "nonneg.modalities.own",
    "nodes": "nonneg.modalities.graphs",
    "graphs": "nonneg.modalities.graphs",
    "pairs": "nonneg.modalities.pairs",
    "texts": "nonneg.modalities.texts",
}
_REGISTERED: dict[str, type["Modality"]] = {}


@dataclass(frozen=True)
class Modality:
    """A kind of samples. Subclass it as a frozen dataclass: its fields are its part of the config.

    A batch is the result of `Source.samples[rows]`: an array, or a tuple or dictionary of arrays, whose first axis
    runs over samples; a part of it may be a `Shared`, such as the graph whose nodes the samples are. Outside `open`,
    `read` and `preview`, its arrays are tensors on the device.

    Every method with a general answer has a default; a subclass must define `draw_views`, and `encoder` unless
    callers always pass their own. `examples/own_modality.py` is a complete example for time series.
    """

    name: ClassVar[str] = ""
    """Its name in configs and saved models."""
    kind: ClassVar[str] = ""
    """What people call its samples, in the plural, such as "nodes"; empty: images or texts, by their previews."""
    savings: ClassVar[str] = "reduce batch_size, or set encode_rows or accumulate"
    """What to do if a step does not fit into memory."""
    legend: ClassVar[str] = ""
    """A sentence about what the picture of a sample shows and the words below it, where this is not obvious."""

    def __post_init__(self) -> None:
        check_fields(self)

    # 1. Source

    def open(
        self, data: Any, split: str = "train", *, skip_broken: bool | None = None, progress: bool = True
    ) -> Source:
        """Open data and return its samples.

        Args:
            data: anything that the modality can read, or a `Source`.
            split: the part of the data: train (everything, if the data has no splits), test, ….
            skip_broken: leave out samples that cannot be read; None uses the modality's setting.
            progress: show a progress bar if reading takes long.
        """
        if isinstance(data, Source):
            return data
        found = repr(data) if isinstance(data, str) else f"a {type(data).__name__}"
        raise InputError(f"data is {found}, expected a Source: {type(self).__name__} reads no files")

    def open_column(
        self, values: Sequence[Any], where: str, folder: Path, *, skip_broken: bool = False, progress: bool = True
    ) -> tuple[Source, npt.NDArray[np.int64]]:
        """Open one column of a table of pairs; equal values become one sample.

        Args:
            values: one per row of the table, such as texts or the paths of files.
            where: the table and its column, for messages.
            folder: the folder of the table, to which paths are relative.
            skip_broken, progress: as for `open`.

        Returns:
            The samples, and the sample of each row of the table, -1 for a row that was skipped.
        """
        raise InputError(f"{where} cannot be read: {type(self).__name__} reads no columns, expected images or texts")

    def fitted(self, source: Source) -> Self:
        """Return a copy that knows everything it must about the data, such as the number of channels of images.

        A model is built from the fitted modality and saved with it.
        """
        return self

    # 2. Views

    def draw_views(
        self, batch: Any, samples: Tensor, seed: int, epoch: Tensor | int, count: int, dtype: torch.dtype
    ) -> Any:
        """Draw the views that the loss compares, as input of the encoder: first views of all samples, then second ones.

        Views must depend only on (seed, epoch, sample, view), so that they stay the same when a batch is split, a step
        is compiled or a run is resumed; `nonneg.modalities.uniform` draws such random numbers. Runs on the device,
        inside the compiled step.

        Args:
            batch: a batch of samples.
            samples: `(batch,)` int64, their row numbers in the source.
            seed, epoch: of the run; epoch may be a tensor on the device.
            count: views per sample.
            dtype: the type of the views.
        """
        raise InputError(f"{self.name or type(self).__name__} draws no views, expected a method draw_views")

    def load_views(self, source: Source, rows: Tensor, seed: int, epoch: int, count: int) -> Iterator[Any] | None:
        """Return batches that already hold views, if views cannot be drawn on the device; usually None.

        Args:
            source: the samples.
            rows: `(steps, batch)` int64 row numbers.
            seed, epoch, count: as in `draw_views`, which then receives these batches.
        """
        return None

    # 3. Encoder

    def check_encoder(self, name: str) -> None:
        """Check an encoder's name before any data is read; raise an `InputError` if it is unknown."""

    def for_encoder(self, name: str) -> tuple[Self, tuple[str, ...]]:
        """Return a copy with the settings that an encoder decides, and remarks about those and about unused settings.

        Args:
            name: the name of the encoder.
        """
        return self, ()

    def encoder(self, name: str, saved: Mapping[str, Any] | None = None) -> tuple[nn.Module, int, dict[str, Any]]:
        """Build an encoder; return a module from views to `(views, width)`, its width, and how to rebuild it.

        Args:
            name: the name of the encoder.
            saved: the description in a saved model of how to rebuild it; then nothing is downloaded.
        """
        raise InputError(f"encoder is {name!r}, expected a module: {type(self).__name__} has no named encoders")

    def own_encoder(self, module: nn.Module) -> nn.Module:
        """Return a module of the caller as an encoder of views; it may take something simpler, such as attributes."""
        return module

    def step_paths(self, encoder: str) -> tuple[str, ...]:
        """Return how a step with a named encoder can be run, the fastest first and "off" last; see `config.compile`.

        "record" needs shapes that are the same in every step, and views and an encoder that never wait for the device;
        "forward" and "graph" need operations that torch compiles.
        """
        return ("graph", "forward", "off")

    def encoder_bytes(self, source: Source, samples: int, views: int, encoder: str) -> float | None:
        """Return about how many bytes an encoder keeps in a step; None: a run on the shapes of a sample can tell.

        Args:
            source: the samples.
            samples: how many of them are encoded at a time.
            views: of each sample.
            encoder: the name of the encoder.
        """
        return None

    def finish(self, encoder: nn.Module) -> None:
        """Make a trained encoder what is saved: called once after training, such as to merge adapters into weights."""

    # 4. Preprocessing

    def inputs(self, batch: Any) -> Any:
        """Return the encoder's input for a batch of samples outside training. All callers use this preprocessing."""
        return batch

    def read(self, sample: Any) -> Source:
        """Return a source of one sample as a person gives it, such as the bytes of an image file, or a text."""
        raise InputError(f"{type(self).__name__} cannot encode a {type(sample).__name__}")

    def to(self, device: torch.device) -> None:
        """Copy constants to a device; called before work starts there."""

    # 5. Preview

    def preview(self, source: Source, rows: range) -> dict[str, Any]:
        """Return something to show for each of these samples: arguments `pixels`, `media` or `texts` of `Features`."""
        return {}

    def feature_figures(self, source: Source, codes: Any) -> dict[str, dict[str, list[float]]]:
        """Return shares to show with each feature, by title: `values` and their `chance` level, `(features,)` each.

        Args:
            source: the samples.
            codes: `(samples, features)`, NumPy or SciPy sparse.
        """
        return {}

    def feature_terms(self, source: Source, codes: Any) -> dict[str, list[list[tuple[str, float, float]]]]:
        """Return what sets the samples of each feature apart, by title: for each feature a few terms, the best first.

        A term has a name, its share of the samples on which the feature is active, and its share of all samples.

        Args:
            source, codes: as for `feature_figures`.
        """
        return {}

    def files(self, encoder: nn.Module, projector: nn.Sequential) -> dict[str, bytes]:
        """Return further files of a saved model by their path in its folder, such as those that another library reads.

        `nonneg.load` needs none of them.
        """
        return {}

    # For samples with two sides, such as an image and its text

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the sides of a sample, such as image and text; none if it has only one.

        The views that the loss compares are then the two sides of a sample, and `draw_views` draws one of each.
        """
        return ()

    def side(self, name: str = "") -> "Modality":
        """Return the modality that opens and reads one side for this modality's encoder; "" is the first side."""
        if name:
            raise InputError(f"side is {name!r}, expected none: the run was trained on {self.name}, not on pairs")
        return self

    def calibrated(self, encoder: nn.Module, side: str, h: Tensor) -> Tensor:
        """Adjust the encoder after training to the samples of a side; return its output for them as it is now.

        Args:
            encoder: of this modality.
            side: the name of the side.
            h: `(samples, width)`, the encoder's output for samples of that side.
        """
        return h

    def related(self, batch: Any) -> Tensor | None:
        """Return `(batch,)` integers, the same for samples that are never negatives of each other; None for none."""
        return None

    # For recipes that adapt to the data

    def adapted(self, data: Any, on_gpu: bool) -> dict[str, Any]:
        """Return settings that suit the data, of the modality or of the whole config, by name.

        Args:
            data: as for `open`.
            on_gpu: whether the network is trained on a GPU.
        """
        return {}

    # For evaluation

    def with_light_views(self) -> Self:
        """Return a copy with the views on which a classifier is trained; by default those of training."""
        return self

    def partners(self, source: Source) -> tuple[Source, Any] | None:
        """Return the partner of each sample, in the same order, if the data has pairs, to measure retrieval.

        With them come the similarities of the pairs as people judged them, `(samples,)` floats, or None.
        """
        return None

    def partner_numbers(self, source: Source) -> Sequence[Any] | None:
        """Return the numbers of all partners of each sample, that of `partners` first; None if all have one of its own.

        A partner that two samples share has one number.
        """
        return None

    def corrupted(self, source: Source) -> dict[str, tuple[Source, ...]]:
        """Return corrupted versions of a source, by kind and from mild to severe, to measure robustness."""
        return {}

    # Saving

    def to_table(self) -> dict[str, Any]:
        """Return its name and fields as a table for TOML and JSON."""
        return {"name": self.name, **asdict(self)}

    @classmethod
    def from_table(cls, content: Mapping[str, Any], prefix: str = "") -> "Modality":
        """Create a modality from the result of `to_table`; the name decides the class."""
        fields = dict(content)
        name = str(fields.pop("name", cls.name or "images"))
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
