"""`Pairs`: the modality of samples with two sides, each of a modality of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.modalities._modality import Modality, register
from nonneg.modalities._source import SomeRows, Source, unwrapped
from nonneg.modalities.images import Images
from nonneg.modalities.pairs._encoder import TwoSided
from nonneg.modalities.pairs._rows import GROUP, PairRows, SideRows
from nonneg.modalities.pairs._side import Side, preview
from nonneg.modalities.pairs.sources import Columns, open_pairs, picture_files
from nonneg.modalities.texts import Texts

_JOIN = "+"  # between the names of the two encoders
# What the data of one modality alone has; pairs have settings of their own for it.
_OF_PAIRS = ("labels", "pairs", "groups", "ids", "scores", "skip_broken")
_OTHER_STREAM = 1 << 32  # added to the seed of the second side: with the same numbers, partners would be found by them


@register
@dataclass(frozen=True)
class Pairs(Modality):
    """Two samples that belong together, such as an image and its text. Both get the same features."""

    name: ClassVar[str] = "pairs"

    first: Modality = field(default_factory=Images)
    """The first side, images by default, with its own settings."""
    second: Modality = field(default_factory=Texts)
    """The second side, texts by default, with its own settings."""
    first_column: str = ""
    """The column of the first side, such as the paths of pictures; empty finds it by its usual names."""
    second_column: str = ""
    """The column of the second side, such as texts; empty finds it by its usual names."""
    labels: str = ""
    """The column of labels; training needs none. Empty for none."""
    groups: str = ""
    """The column of groups: pairs of a group are never negatives of each other. Empty: pairs that share a sample are
    a group."""
    skip_broken: bool = False
    """Leave out pairs of which a side cannot be read, and record which; otherwise they are an error."""
    width: Annotated[int, Field(ge=1, le=2**16)] = 256
    """Width of the space into which both encoders map, before the projector."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for place in ("first", "second"):
            for name in _OF_PAIRS:
                value = getattr(getattr(self, place), name, None)
                if value:
                    raise InputError(
                        f"{place}.{name} is {value!r}, expected {type(value)()!r}: only the pairs have such a setting"
                    )

    # Sides

    @property
    def sides(self) -> tuple[str, str]:
        """The names of the sides: image and text; first and second if both are of the same kind."""
        first, second = (each.name.removesuffix("s") for each in (self.first, self.second))
        return ("first", "second") if first == second else (first, second)

    def modality_of(self, side: str) -> Modality:
        """Return the modality of one side."""
        if side not in self.sides:
            raise InputError(f"side is {side!r}, expected {' or '.join(self.sides)}")
        return self.first if side == self.sides[0] else self.second

    def side(self, name: str = "") -> Modality:
        side = name or self.sides[0]
        return Side(self, side, self.modality_of(side))

    def calibrated(self, encoder: nn.Module, side: str, h: Tensor) -> Tensor:
        return encoder.calibrated(side, h) if isinstance(encoder, TwoSided) else h

    def related(self, batch: Any) -> Tensor | None:
        return batch.get(GROUP)  # type: ignore[no-any-return]

    # Source

    def open(
        self, data: Any, split: str = "train", *, skip_broken: bool | None = None, progress: bool = True
    ) -> Source:
        if isinstance(data, Source):
            rows, numbers = unwrapped(data.samples)
            if not isinstance(rows, PairRows):
                raise InputError(f"{data.name} holds a {type(rows).__name__}, expected pairs, as pair_source makes")
            first, second = (self.modality_of(side).open(s) for side, s in zip(rows.sides, rows.sources, strict=True))
            if (first, second) == rows.sources:
                return data
            groups = None if rows.groups is None else rows.groups[numbers]
            samples = PairRows(rows.sides, (first, second), rows.links[numbers], groups)
            notes = dict.fromkeys((*data.notes, *first.notes, *second.notes))
            return replace(data, samples=samples, notes=tuple(notes))
        columns = Columns(self.first_column, self.second_column, self.labels, self.groups)
        skip = self.skip_broken if skip_broken is None else skip_broken
        # Outside training, labels and groups are welcome but not needed.
        needed = not getattr(self, "_has_encoder", False)
        return open_pairs(data, split, self, columns, skip_broken=skip, progress=progress, need_columns=needed)

    def fitted(self, source: Source) -> Self:
        rows = unwrapped(source.samples)[0]
        by_side = dict(zip(rows.sides, rows.sources, strict=True))
        first, second = (self.modality_of(side).fitted(by_side[side]) for side in self.sides)
        return replace(self, first=first, second=second)

    # Views and encoder

    def draw_views(
        self, batch: Any, samples: Tensor, seed: int, epoch: Tensor | int, count: int, dtype: torch.dtype
    ) -> dict[str, Any]:
        """Draw `count` views, as many of each side that the samples have."""
        present = [(i, side) for i, side in enumerate(self.sides) if side in batch]
        each = count // len(present)
        return {
            side: self.modality_of(side).draw_views(batch[side], samples, seed + i * _OTHER_STREAM, epoch, each, dtype)
            for i, side in present
        }

    def with_light_views(self) -> "Pairs":
        return replace(self, first=self.first.with_light_views(), second=self.second.with_light_views())

    def check_encoder(self, name: str) -> None:
        for side, own in zip(self.sides, _names(name), strict=True):
            self.modality_of(side).check_encoder(own)

    def for_encoder(self, name: str) -> tuple[Self, tuple[str, ...]]:
        if _JOIN not in name:  # a module
            return self, ()
        (first, of_first), (second, of_second) = (
            self.modality_of(side).for_encoder(own) for side, own in zip(self.sides, _names(name), strict=True)
        )
        remarks = (*(f"first.{each}" for each in of_first), *(f"second.{each}" for each in of_second))
        return replace(self, first=first, second=second), remarks

    def encoder(self, name: str, saved: Mapping[str, Any] | None = None) -> tuple[nn.Module, int, dict[str, Any]]:
        object.__setattr__(self, "_has_encoder", True)
        encoders, widths, described = {}, {}, {}
        for side, own in zip(self.sides, _names(name), strict=True):
            known = None if saved is None else saved.get(side, {})
            encoders[side], widths[side], described[side] = self.modality_of(side).encoder(own, known)
        return TwoSided(encoders, widths, self.width), self.width, {side: d for side, d in described.items() if d}

    def finish(self, encoder: nn.Module) -> None:
        if isinstance(encoder, TwoSided):
            for side, own in encoder.encoders.items():
                self.modality_of(side).finish(own)

    # Outside training

    def inputs(self, batch: Any) -> dict[str, Any]:
        return {side: self.modality_of(side).inputs(batch[side]) for side in self.sides if side in batch}

    def to(self, device: torch.device) -> None:
        self.first.to(device)
        self.second.to(device)

    def preview(self, source: Source, rows: range) -> dict[str, Any]:
        return preview(self, source, rows)

    def partners(self, source: Source) -> tuple[Source, Any] | None:
        """Return the first partner of each sample of a side."""
        samples, rows = unwrapped(source.samples)
        if not isinstance(samples, SideRows) or samples.others is None:
            return None
        first = np.array([samples.partners[row][0] for row in rows])
        side = next(side for side in self.sides if side != samples.side)
        taken = Source(f"{source.name} partners", SomeRows(samples.others.samples, first), source.ids)
        return replace(taken, samples=SideRows(side, taken)), None

    def partner_numbers(self, source: Source) -> Sequence[Any] | None:
        samples, rows = unwrapped(source.samples)
        return [samples.partners[row] for row in rows] if isinstance(samples, SideRows) and samples.partners else None

    def adapted(self, data: Any, on_gpu: bool) -> dict[str, Any]:
        """Choose the encoder and the size of images as for images alone."""
        if not isinstance(self.first, Images) or isinstance(data, Source):
            return {}
        columns = Columns(self.first_column, self.second_column, self.labels, self.groups)
        files = picture_files(data, columns)
        if files is None:
            return {}
        chosen = self.first.adapted(files, on_gpu)
        encoder = f"{chosen.pop('encoder')}{_JOIN}transformer"
        return {"encoder": encoder, "first": replace(self.first, **chosen)}

    # Saving

    def to_table(self) -> dict[str, Any]:
        return {**super().to_table(), "first": self.first.to_table(), "second": self.second.to_table()}


def _names(name: str) -> tuple[str, str]:
    first, plus, second = name.partition(_JOIN)
    if not (first and plus and second):
        raise InputError(f"encoder is {name!r}, expected one per side: resnet18{_JOIN}transformer")
    return first, second
