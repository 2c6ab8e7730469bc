"""One side of pairs: opening it, reading one sample of it, and showing it with its partners."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nonneg.errors import InputError
from nonneg.modalities._modality import Modality
from nonneg.modalities._source import SomeRows, Source, unwrapped
from nonneg.modalities._splits import UndividedError
from nonneg.modalities.pairs._rows import PairRows, SideRows
from nonneg.modalities.pairs.sources import NotPairsError

if TYPE_CHECKING:
    from nonneg.modalities.pairs._modality import Pairs

_MOST_TEXTS = 20  # of one sample that are shown


@dataclass(frozen=True)
class Side(Modality):
    """Opens and reads one side for the encoder of both: from pairs, or from data of that side alone."""

    name: ClassVar[str] = "side of pairs"

    pairs: Any
    side_name: str
    own: Any

    def __post_init__(self) -> None:
        """Nothing to check: it is never part of a config."""

    def open(
        self, data: Any, split: str = "train", *, skip_broken: bool | None = None, progress: bool = True
    ) -> Source:
        pairs: Pairs = self.pairs
        if isinstance(data, Source):
            samples, _ = unwrapped(data.samples)
            if isinstance(samples, SideRows):
                return data
            if isinstance(samples, PairRows):
                opened = pairs.open(data)
                whole, rows = unwrapped(opened.samples)
                side: Source = whole.side(self.side_name, rows)
                return replace(side, name=opened.name, skipped=opened.skipped, notes=opened.notes)
            return self._alone(self.own.open(data))
        try:
            opened = pairs.open(data, split, skip_broken=skip_broken, progress=progress)
        except NotPairsError as error:
            try:
                return self._alone(self.own.open(data, split, skip_broken=skip_broken, progress=progress))
            except UndividedError:
                raise
            except InputError as alone:
                raise InputError(f"{error}; as {self.own.name} alone: {alone}") from None
        return self.open(opened)

    def read(self, sample: Any) -> Source:
        return self._alone(self.own.read(sample))

    def _alone(self, source: Source) -> Source:
        return replace(source, samples=SideRows(self.side_name, source))


def preview(pairs: "Pairs", source: Source, rows: range) -> dict[str, Any]:
    """Return the samples of a side and, as far as they can be shown beside these, their partners."""
    samples, numbers = unwrapped(source.samples)
    if not isinstance(samples, SideRows):
        return {}
    numbers = numbers[rows.start : rows.stop]
    own = samples.source.take(numbers)
    shown = pairs.modality_of(samples.side).preview(own, range(len(own)))
    if samples.others is None:
        return shown
    linked = [samples.partners[row][:_MOST_TEXTS] for row in numbers]
    side = next(side for side in pairs.sides if side != samples.side)
    others = Source(samples.others.name, SomeRows(samples.others.samples, np.concatenate(linked)))  # some repeatedly
    starts: list[int] = np.cumsum([0, *map(len, linked)]).tolist()
    beside = pairs.modality_of(side).preview(others, range(len(others)))
    images = {"pixels", "media"}
    for kind, values in beside.items():
        if kind not in shown and not (kind in images and images & shown.keys()):
            shown[kind] = _of_each(values, starts)
    return shown


def _of_each(values: Any, starts: Sequence[int]) -> Any:
    """Return one value per sample: all its texts in one, or its first image."""
    if isinstance(values, np.ndarray):
        return values[starts[:-1]]
    if values and isinstance(values[0], str):
        return ["\n".join(dict.fromkeys(values[a:b])) for a, b in pairwise(starts)]
    return [values[start] for start in starts[:-1]]
