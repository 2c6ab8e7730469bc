"""One set of features with what is computed of it once: unit codes, counts, labels, captions."""

import secrets
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nonneg.codes import unit_rows
from nonneg.explorer._answers import Caption, FeatureRow, Sample
from nonneg.explorer._labels import label_counts
from nonneg.explorer._media import SIGNED, content_type
from nonneg.explorer._names import Names
from nonneg.features import Features

Array = npt.NDArray[Any]
_EXCERPT = 240  # characters
_MOSTLY, _OFTEN = 0.5, 0.25  # shares of its commonest label from which a feature is called after it
_STANDS_OUT = 1.5  # times the label's share of all samples, at least
_BLOCK = 512  # features whose products with all others are taken together


class FeatureSet:
    """Features, as the pages need them.

    Args:
        features: to be shown.
        name: of the set, for people.
        folder: where the features lie, and their names are kept; None if they are in memory alone.

    Example:
        >>> features = Features(np.eye(3, dtype=np.float32), labels=[0, 1, 1], label_names=("cat", "dog"))
        >>> FeatureSet(features, "pets").caption(2)
        Caption(feature=2, name=None, hint='mostly dog')
    """

    def __init__(self, features: Features, name: str, folder: Path | None = None) -> None:
        self.features, self.name = features, name
        self.key = secrets.token_hex(4)  # part of the addresses of pictures: a browser's copy of others is not shown
        self.units, self.active, self.expected = features.units, features.active, features.expected_activation
        self._active_rows = features.units.astype(bool).tocsc()
        self._has_pictures = "media" in features.samples.column_names
        self.labels = label_counts(features, self.units)
        self._lock = threading.RLock()
        self._hints: dict[int, str] | None = None
        self.names = Names(features, folder)
        features.column(0)  # its matrix by feature is made here, and not while somebody waits

    # Samples

    def __len__(self) -> int:
        return len(self.features)

    def sample(self, row: int, strength: float | None = None) -> Sample:
        """A sample in short."""
        features = self.features
        label = None if features.labels is None or features.labels[row] < 0 else int(features.labels[row])
        text = features.text(row)
        return Sample(
            row=int(row),
            id=features.id(row),
            label=None if label is None else features.label_name(label),
            excerpt=None if text is None else text[:_EXCERPT] + ("…" if len(text) > _EXCERPT else ""),
            has_picture=self._has_picture(row),
            strength=None if strength is None else float(strength),
        )

    def _has_picture(self, row: int) -> bool:
        """Whether there is one that a browser shows."""
        if not self._has_pictures:
            return False
        media = self.features.samples["media"][int(row)]
        return media.is_valid and content_type(bytes(media.as_buffer()[:SIGNED])) is not None

    def column(self, feature: int) -> tuple[Array, Array]:
        """Rows on which a feature is active and its values there, weakest first."""
        stored, values = self.features.column(feature)
        start, stop = self._active_rows.indptr[feature : feature + 2]
        rows = self._active_rows.indices[start:stop]
        values = values[np.searchsorted(stored, rows)]
        order = np.argsort(-values, kind="stable")[::-1]  # of equal ones, the first row is the strongest
        return rows[order], values[order]

    def strongest(self, feature: int, count: int) -> tuple[Sample, ...]:
        """Samples on which a feature is strongest, strongest first."""
        rows, values = self.column(feature)
        return tuple(self.sample(row, value) for row, value in zip(rows[::-1][:count], values[::-1], strict=False))

    def across(self, feature: int, count: int) -> tuple[Sample, ...]:
        """Samples from its strongest to its faintest, evenly spaced."""
        rows, values = self.column(feature)
        places = np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(int))[::-1]
        return tuple(self.sample(rows[i], values[i]) for i in places)

    # Features

    def caption(self, feature: int) -> Caption:
        """What a feature is called."""
        return Caption(feature=feature, name=self.names.current().get(feature), hint=self.hint(feature))

    def hint(self, feature: int) -> str | None:
        """The words that set its texts apart, if they have been found; else its commonest label, if that stands out."""
        if self._hints and feature in self._hints:
            return self._hints[feature]
        if self.labels is None or self.labels.commonest[feature] < 0:
            return None
        label, share = self.labels.commonest[feature], self.labels.share[feature]
        everywhere = self.labels.totals[label] / self.labels.totals.sum()
        if share < _OFTEN or share < _STANDS_OUT * everywhere:
            return None
        return f"{'mostly' if share >= _MOSTLY else 'often'} {self.labels.names[label]}"

    def row(self, feature: int) -> FeatureRow:
        """A feature's line in the table."""
        labels = self.labels if self.labels is not None and self.labels.commonest[feature] >= 0 else None
        nearest = float(self.nearest[feature])
        return FeatureRow(
            feature=int(feature),
            name=self.names.current().get(feature),
            hint=self.hint(feature),
            active=int(self.active[feature]),
            frequency=float(self.active[feature] / len(self)),
            expected_activation=float(self.expected[feature]),
            label=None if labels is None else labels.names[labels.commonest[feature]],
            consistency=None if labels is None else float(labels.share[feature]),
            entropy=None if labels is None else float(labels.entropy[feature]),
            redundancy=None if np.isnan(nearest) else nearest,
        )

    def by_activation(self) -> list[int]:
        """Live features, the largest expected activation first; by absolute value where codes have signs."""
        order = np.argsort(-np.abs(self.expected), kind="stable")
        return [int(feature) for feature in order if self.active[feature]]

    @cached_property
    def products(self) -> Array:
        """`(features, features)` float32: cosines of what features fire on; 0 for dead ones."""
        with self._lock:
            if "products" in self.__dict__:  # another thread was first
                return np.asarray(self.__dict__["products"])
            columns = unit_rows(sp.csr_array(self.features.codes.T).astype(np.float64)).astype(np.float32)
            samples, products = sp.csr_array(columns.T), np.empty((columns.shape[0],) * 2, np.float32)
            for start in range(0, len(products), _BLOCK):
                products[start : start + _BLOCK] = (columns[start : start + _BLOCK] @ samples).toarray()
            return products

    @cached_property
    def squared_products(self) -> Array:
        """`(features,)`: the squared length of each row of `products`."""
        return np.asarray(np.einsum("ij,ij->i", self.products, self.products))

    @cached_property
    def nearest(self) -> Array:
        """`(features,)`: the largest absolute cosine with another feature; NaN where dead or alone."""
        with self._lock:
            others = np.abs(self.products)
            np.fill_diagonal(others, 0)
            return np.where(self.active > 0, others.max(axis=1) if len(others) > 1 else np.nan, np.nan)

    @property
    def is_settled(self) -> bool:
        """Whether hints will stay what they are."""
        return self._hints is not None or "text" not in self.features.samples.column_names

    def prepare(self) -> None:
        """Compute what pages would otherwise wait for at their first visit."""
        _ = self.nearest, self.squared_products
        if not self.is_settled:
            from nonneg.explorer._words import words_of

            self._hints = words_of(self.features)


def captions(features: FeatureSet, numbers: Sequence[int]) -> tuple[Caption, ...]:
    """Of several features."""
    return tuple(features.caption(int(number)) for number in numbers)
