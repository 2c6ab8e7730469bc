"""One set of features with everything the pages need, computed once: activity, labels, captions and cosines."""

import secrets
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from nonneg.codes import dense, unit_rows
from nonneg.errors import InputError
from nonneg.explorer._answers import Caption, FeatureRow, Kind, Sample
from nonneg.explorer._labels import label_counts
from nonneg.explorer._names import Names
from nonneg.explorer._range import Range
from nonneg.features import (
    Features,
    SampleMap,
    Suggestion,
    codes_key,
    content_type,
    read_map,
    write_map,
    write_suggestions,
)
from nonneg.naming import Reader, reader_of, suggest_names
from nonneg.payload import Array
from nonneg.search import Encoder

if TYPE_CHECKING:
    from nonneg.explorer._glass import GlassBox

_EXCERPT = 240  # characters
_MOSTLY, _OFTEN = 0.5, 0.25  # shares of the most common label that make it a hint
_STANDS_OUT = 1.5  # minimum ratio of that share to the label's share of all samples
_BLOCK = 512  # features whose cosines with all others are computed at once


class FeatureSet:
    """Features prepared for the pages.

    Args:
        features: the features to show.
        name: the name of the set, for people.
        folder: the features folder, where names are saved, or None for features in memory.
        encoder: makes codes of new images or texts, or None.
        glass_box: classifies the codes, or None.

    Example:
        >>> features = Features(np.eye(3, dtype=np.float32), labels=[0, 1, 1], label_names=("cat", "dog"))
        >>> FeatureSet(features, "pets").caption(2)
        Caption(feature=2, name=None, hint='mostly dog', score=None, is_guess=False)
    """

    def __init__(
        self,
        features: Features,
        name: str,
        folder: Path | None = None,
        encoder: Encoder | None = None,
        glass_box: "GlassBox | None" = None,
    ) -> None:
        self.features, self.name, self.encoder, self.glass_box = features, name, encoder, glass_box
        self.folder = folder
        self.key = secrets.token_hex(4)  # part of image addresses, so that browsers do not reuse images of other sets
        self.units, self.active, self.expected = features.units, features.active, features.expected_activation
        self._active_rows = features.units.astype(bool).tocsc()
        self._has_pixels = features.has_media and features.pixels is not None
        self.labels = label_counts(features)
        agreement = features.agreement
        self._agreement = np.full(features.shape[1], np.nan) if agreement is None else agreement
        self._lock = threading.RLock()
        self._suggestions: Mapping[int, Suggestion] | None = features.suggestions or None
        self.names = Names(features, folder)
        features.column(0)  # builds the matrix by feature now instead of during the first request

    # Samples

    def __len__(self) -> int:
        return len(self.features)

    def sample(self, row: int, strength: float | None = None) -> Sample:
        """Describe a sample in short."""
        features = self.features
        label = None if features.labels is None or features.labels[row] < 0 else int(features.labels[row])
        text = features.text(row)
        return Sample(
            row=int(row),
            id=features.id(row),
            label=None if label is None else features.label_name(label),
            excerpt=None if text is None else text[:_EXCERPT] + ("…" if len(text) > _EXCERPT else ""),
            # Pixels are always shown as PNG; encoding one to find that out would be slow.
            has_picture=self._has_pixels or content_type(features.media(int(row))) is not None,
            strength=None if strength is None else float(strength),
        )

    def column(self, feature: int) -> tuple[Array, Array]:
        """Rows on which a feature is active and its values there, in ascending order of the values."""
        stored, values = self.features.column(feature)
        start, stop = self._active_rows.indptr[feature : feature + 2]
        rows = self._active_rows.indices[start:stop]
        values = values[np.searchsorted(stored, rows)]
        order = np.argsort(-values, kind="stable")[::-1]  # of equal values, the first row counts as the strongest
        return rows[order], values[order]

    def strongest(self, feature: int, count: int) -> tuple[Sample, ...]:
        """The samples with a feature's largest values, in descending order."""
        rows, values = self.column(feature)
        return tuple(self.sample(row, value) for row, value in zip(rows[::-1][:count], values[::-1], strict=False))

    def spread(self, feature: int, count: int) -> tuple[Sample, ...]:
        """Samples evenly spaced from a feature's strongest to its weakest active sample."""
        rows, values = self.column(feature)
        places = np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(int))[::-1]
        return tuple(self.sample(rows[i], values[i]) for i in places)

    # Features

    def caption(self, feature: int) -> Caption:
        """A feature's name and hint."""
        return Caption(feature=feature, **self._named(feature))

    def _named(self, feature: int) -> dict[str, Any]:
        found = (self._suggestions or {}).get(feature)
        return {
            "name": self.names.current().get(feature),
            "hint": self.hint(feature),
            "score": None if found is None else found.score,
            "is_guess": found is not None and found.is_guess,
        }

    def title(self, feature: int) -> str | None:
        """A feature's name, or else its hint."""
        return self.names.current().get(feature) or self.hint(feature)

    def hint(self, feature: int) -> str | None:
        """A feature's suggested name, if there is one, or else its most common label, if it stands out."""
        if self._suggestions and feature in self._suggestions:
            return self._suggestions[feature].name
        if self.labels is None or self.labels.most_common[feature] < 0:
            return None
        label, share = self.labels.most_common[feature], self.labels.share[feature]
        overall = self.labels.totals[label] / self.labels.totals.sum()
        if share < _OFTEN or share < _STANDS_OUT * overall:
            return None
        name = self.labels.names[label]
        word = "label " if name.lstrip("-").isdecimal() else ""  # a bare number means nothing in a title
        return f"{'mostly' if share >= _MOSTLY else 'often'} {word}{name}"

    def row(self, feature: int) -> FeatureRow:
        """A feature's row in the table."""
        labels = self.labels if self.labels is not None and self.labels.most_common[feature] >= 0 else None
        redundancy = float(self.redundancy[feature])
        return FeatureRow(
            feature=int(feature),
            **self._named(feature),
            active=int(self.active[feature]),
            frequency=float(self.active[feature] / len(self)),
            expected_activation=float(self.expected[feature]),
            label=None if labels is None else labels.names[labels.most_common[feature]],
            consistency=None if labels is None else float(labels.share[feature]),
            entropy=None if labels is None else float(labels.entropy[feature]),
            redundancy=None if np.isnan(redundancy) else redundancy,
            agreement=None if np.isnan(self._agreement[feature]) else float(self._agreement[feature]),
        )

    @cached_property
    def products(self) -> Array:
        """`(features, features)` float32: cosines between features over the samples, 0 for dead features."""
        with self._lock:
            if "products" in self.__dict__:  # another thread has computed them meanwhile
                return np.asarray(self.__dict__["products"])
            columns = unit_rows(self.features.codes.T).astype(np.float32)  # dense codes stay dense, which is faster
            samples = sp.csr_array(columns.T) if self.features.is_sparse else columns.T
            products = np.empty((columns.shape[0],) * 2, np.float32)
            for start in range(0, len(products), _BLOCK):
                products[start : start + _BLOCK] = dense(columns[start : start + _BLOCK] @ samples)
            return products

    @cached_property
    def squared_products(self) -> Array:
        """`(features,)`: the squared length of each row of `products`."""
        return np.asarray(np.einsum("ij,ij->i", self.products, self.products))

    @cached_property
    def redundancy(self) -> Array:
        """`(features,)`: the largest absolute cosine with another feature; NaN for a dead or a single feature."""
        with self._lock:
            others = np.abs(self.products)
            np.fill_diagonal(others, 0)
            return np.where(self.active > 0, others.max(axis=1) if len(others) > 1 else np.nan, np.nan)

    @property
    def input_kind(self) -> Kind | None:
        """What the encoder takes on the page, which sends only images and texts."""
        kinds: dict[str, Kind] = {"image": "image", "text": "text"}
        return None if self.encoder is None else kinds.get(self.encoder.kind)

    @property
    def is_settled(self) -> bool:
        """Whether names have been suggested."""
        return self._suggestions is not None or "text" not in self.features.samples.column_names

    def prepare(self, encodes: bool = False) -> None:
        """Compute now what the first request would otherwise wait for; load the model if new samples are encoded."""
        _ = self.redundancy, self.squared_products
        if not self.is_settled:
            self._suggestions = self._suggested()
        if encodes and self.encoder is not None and self.input_kind == "text":  # the pages of features mark words
            with suppress(InputError):  # reported where the model is asked for
                self.encoder.load()

    def _suggested(self) -> Mapping[int, Suggestion]:
        """Suggest names, and save them if the features are in a folder that can be written."""
        if self.reader is None:
            return {}
        found = suggest_names(self.features, reader=self.reader)
        if self.folder is not None:
            with suppress(InputError):
                write_suggestions(self.folder, codes_key(self.features), found)
        return found

    @cached_property
    def reader(self) -> Reader | None:
        """A reader of the texts, by which names are scored; None without texts that share words."""
        with self._lock:
            if "reader" in self.__dict__:  # another thread has made it meanwhile
                return self.__dict__["reader"]  # type: ignore[no-any-return]
            if "text" not in self.features.samples.column_names:
                return None
            try:
                return reader_of(self.features)
            except InputError:
                return None

    @cached_property
    def map(self) -> SampleMap:
        """A map of the samples: the one in the folder, or a new one, which is saved there if possible."""
        from nonneg.explorer._map import sample_map  # imports scikit-learn

        if self.folder is None:
            return sample_map(self.features)
        key = codes_key(self.features)
        found = read_map(self.folder, key, len(self))
        if found is None:
            found = sample_map(self.features)
            with suppress(InputError):
                write_map(self.folder, key, found)
        return found

    @cached_property
    def range(self) -> Range:
        """What is normal for a new input."""
        return Range(self.features)

    def has_label(self, label: str) -> Array:
        """Return `(samples,)` booleans: which samples have a label, given by its name."""
        labels = self.features.labels
        if labels is None or self.labels is None or label not in self.labels.names:
            raise InputError(f"label is {label!r}, expected one of the labels of {self.name}")
        number = self.labels.numbers[self.labels.names.index(label)]
        return np.asarray(labels == number)
