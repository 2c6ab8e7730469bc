"""`Source`: samples to learn from or to embed, with what is known of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Source:
    """Images with ids, labels and, where the data was drawn, the factors it was drawn from.

    Attributes:
        name: where it comes from, for provenance; never an absolute path.
        images: `(samples, height, width, channels)` uint8; 1 channel is grey, 3 are RGB. May be a
            read-only memory map, so that data larger than memory can be opened: take rows, not all of it.
        ids: one string a sample, all different.
        labels: `(samples,)` int64, -1 for a sample without one; None if none has one.
        label_names: what label 0, 1, … is called.
        factors: factor name to `(samples,)` int64 values, for data whose making is known.
        factor_names: factor name to what its values 0, 1, … are called.
        skipped: names of the samples left out because their image is broken.
    """

    name: str
    images: npt.NDArray[np.uint8]
    ids: tuple[str, ...]
    labels: npt.NDArray[np.int64] | None
    label_names: tuple[str, ...]
    factors: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    factor_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: npt.NDArray[Any]) -> "Source":
        """These rows (numbers or a mask), in this order, in memory."""
        rows = np.arange(len(self))[rows]
        return Source(
            self.name,
            self.images[rows],
            tuple(self.ids[int(row)] for row in rows),
            None if self.labels is None else self.labels[rows],
            self.label_names,
            {name: values[rows] for name, values in self.factors.items()},
            self.factor_names,
            self.skipped,
        )
