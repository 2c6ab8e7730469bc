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
        name: where it comes from, for provenance.
        images: `(samples, height, width, channels)` uint8; 1 channel is grey, 3 are RGB.
        ids: one string a sample, all different.
        labels: `(samples,)` int64, or None.
        label_names: what label 0, 1, … is called.
        factors: factor name to `(samples,)` int64 values, for data whose making is known.
        factor_names: factor name to what its values 0, 1, … are called.
    """

    name: str
    images: npt.NDArray[np.uint8]
    ids: tuple[str, ...]
    labels: npt.NDArray[np.int64] | None
    label_names: tuple[str, ...]
    factors: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    factor_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: npt.NDArray[Any]) -> "Source":
        """These rows (numbers or a mask), in this order."""
        rows = np.arange(len(self))[rows]
        return Source(
            self.name,
            self.images[rows],
            tuple(self.ids[int(row)] for row in rows),
            None if self.labels is None else self.labels[rows],
            self.label_names,
            {name: values[rows] for name, values in self.factors.items()},
            self.factor_names,
        )
