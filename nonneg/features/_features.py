"""`Features`: a matrix of samples × features with everything needed to read it."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nonneg.codes import active_units
from nonneg.errors import InputError
from nonneg.features._card import Card, card
from nonneg.features._checks import (
    checked_codes,
    checked_label_names,
    checked_labels,
    freeze,
    plain_json,
    sample_column,
)
from nonneg.features._columns import activity, moved, select_columns
from nonneg.features._names import checked_names
from nonneg.features._origin import agreement, model_columns
from nonneg.features._pixels import checked_pixels, encode_png
from nonneg.features._suggested import Suggestion
from nonneg.labels import is_labelled
from nonneg.payload import Array


class Features:
    """Codes of samples with labels, previews, names and provenance. Immutable.

    Args:
        codes: `(samples, features)`, NumPy (float16 to float64) or SciPy sparse (float32 or float64).
            They are copied only if necessary: do not change the arrays afterwards.
        ids: one string per sample, all different; the row numbers by default.
        labels: one integer per sample, negative for unlabelled samples; or, without `label_names`, one word per sample,
            None, NaN or "" for unlabelled samples. Words are numbered in sorted order, and name their numbers.
        label_names: the names of labels 0, 1, ….
        media: one encoded image per sample (PNG or JPEG bytes).
        pixels: one image per sample as plain pixels, `(samples, height, width, channels)` uint8 with 1 to 4 channels;
            instead of `media`. Like codes, they are copied only if necessary.
        texts: one text per sample.
        names: feature to name.
        provenance: how the codes were made; anything that JSON can hold.

    Example:
        >>> features = Features(np.eye(3, dtype=np.float32), labels=[0, 1, 1], label_names=("cat", "dog"))
        >>> features.shape
        (3, 3)
        >>> features.feature(2).labels
        mappingproxy({'dog': 1.0})
    """

    def __init__(
        self,
        codes: Any,
        *,
        ids: Sequence[str] | None = None,
        labels: Any = None,
        label_names: Iterable[str] = (),
        media: Sequence[bytes] | None = None,
        pixels: Any = None,
        texts: Sequence[str] | None = None,
        names: Mapping[int, str] | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        if media is not None and pixels is not None:
            raise InputError("media and pixels are both given, expected one of them")
        self._codes = checked_codes(codes)
        columns = {
            "id": sample_column("ids", ids, pa.string(), len(self)),
            "media": sample_column("media", media, pa.large_binary(), len(self)),
            "text": sample_column("texts", texts, pa.large_string(), len(self)),
        }
        if columns["id"] is not None and len(columns["id"].unique()) < len(self):
            raise InputError("ids: some are the same, expected a different id for each sample")
        self._samples = pa.table({name: column for name, column in columns.items() if column is not None})
        self._pixels = None if pixels is None else checked_pixels(pixels, len(self))
        self._pixel_rows: Array | None = None
        self._label_names, self._labels = checked_label_names(label_names), None
        if labels is not None:
            self._labels, self._label_names = checked_labels(labels, len(self), self._label_names)
        self._names = self._checked_names(names or {})
        self._suggestions: dict[int, Suggestion] = {}
        self._provenance = plain_json(provenance or {})

    @classmethod
    def _from_parts(cls, **parts: Any) -> "Features":
        """Assemble features from checked parts, named like the private attributes; nothing is read or copied."""
        self = cls.__new__(cls)
        self.__dict__.update(parts)
        return self

    def _with_parts(self, **parts: Any) -> "Features":
        of_samples = ("_codes", "_samples", "_pixels", "_pixel_rows", "_label_names", "_labels")
        own = (*of_samples, "_names", "_suggestions", "_provenance")
        return self._from_parts(**({name: self.__dict__[name] for name in own} | parts))

    # Content

    @property
    def codes(self) -> Any:
        """`(samples, features)`: a read-only NumPy array or a SciPy `csr_array`."""
        return self._codes

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of samples and features."""
        samples, features = self._codes.shape
        return int(samples), int(features)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def is_sparse(self) -> bool:
        """Whether the codes are a SciPy matrix."""
        return bool(sp.issparse(self._codes))

    @property
    def labels(self) -> Array | None:
        """`(samples,)` int64, -1 for unlabelled samples; None without labels."""
        return self._labels

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of labels 0, 1, …."""
        return self._label_names

    def label_name(self, label: int) -> str:
        """Return a label's name, or its number if it has none."""
        return self._label_names[label] if 0 <= label < len(self._label_names) else str(label)

    @property
    def samples(self) -> pa.Table:
        """An Arrow table with one row per sample and any of the columns id, media and text."""
        return self._samples

    def id(self, row: int) -> str:
        """Return the sample's id, or its row number if samples have no ids."""
        return str(self._value("id", row) if "id" in self._samples.column_names else range(len(self))[row])

    @cached_property
    def pixels(self) -> Array | None:
        """`(samples, height, width, channels)` uint8, read-only; None if the images are encoded or there are none."""
        if self._pixels is None or self._pixel_rows is None:
            return self._pixels
        freeze(taken := self._pixels[self._pixel_rows])
        return taken

    @property
    def has_media(self) -> bool:
        """Whether samples have images, encoded or as pixels."""
        return self._pixels is not None or "media" in self._samples.column_names

    def media(self, row: int) -> bytes | None:
        """Return the sample's encoded image: the one that was given, or a PNG of its pixels."""
        if self._pixels is None:
            return self._value("media", row)  # type: ignore[no-any-return]
        row = range(len(self))[row]
        return encode_png(self._pixels[row if self._pixel_rows is None else self._pixel_rows[row]])

    def text(self, row: int) -> str | None:
        """Return the sample's text."""
        return self._value("text", row)  # type: ignore[no-any-return]

    @property
    def names(self) -> Mapping[int, str]:
        """Feature to name, for features that have one."""
        return MappingProxyType({feature: name for feature, name in self._names.items() if name})

    @property
    def suggestions(self) -> Mapping[int, Suggestion]:
        """Feature to suggested name with its score, whether or not people have named the feature."""
        return MappingProxyType(self._suggestions)

    @property
    def titles(self) -> Mapping[int, str]:
        """Feature to the name that people gave it, otherwise the suggested one; features with neither are missing."""
        suggested = {feature: found.name for feature, found in self._suggestions.items()}
        return MappingProxyType({**suggested, **self.names})

    @property
    def provenance(self) -> dict[str, Any]:
        """How the codes were made; a copy."""
        return copy.deepcopy(self._provenance)

    def __repr__(self) -> str:
        samples, features = self.shape
        layout = "sparse" if self.is_sparse else "dense"
        labels = "no labels" if self._labels is None else f"{is_labelled(np.unique(self._labels)).sum()} labels"
        return f"Features({samples:,} samples x {features:,} features, {layout} {self._codes.dtype}, {labels})"

    @property
    def layer(self) -> str:
        """The layer of the model that made the codes: "encoder" or "projector"."""
        return "encoder" if self._provenance.get("layer") == "encoder" else "projector"

    @property
    def kind(self) -> str:
        """What people call the samples: what the modality calls them, or "images", "texts" or just "samples"."""
        if given := self._provenance.get("kind"):
            return str(given)
        return "images" if self.has_media else "texts" if "text" in self._samples.column_names else "samples"

    @property
    def legend(self) -> str:
        """What the pictures of samples show, where this is not obvious; empty otherwise."""
        return str(self._provenance.get("legend") or "")

    @property
    def model_columns(self) -> Array | None:
        """`(features,)`: the column of the model's output that each feature is, -1 for an empty feature.

        None means all columns in order. `with_columns` changes it. The code of a new sample for these features
        consists of these columns of the model's output.
        """
        return model_columns(self._provenance, self.shape[1])

    @property
    def agreement(self) -> Array | None:
        """`(features,)`: how well samples and their partners agree on each feature, as an AUC; NaN if unknown.

        None for features of samples without partners. 0.5 is chance.
        """
        return agreement(self._provenance, self.shape[1])

    # Derived values

    @cached_property
    def units(self) -> Any:
        """`(samples, features)` float64 `csr_array`: rows of length 1, inactive entries removed."""
        units = active_units(self._codes)
        freeze(units.data, units.indices, units.indptr)
        return units

    @cached_property
    def active(self) -> Array:
        """`(features,)` int64: the number of samples on which each feature is active."""
        return np.bincount(self.units.indices, minlength=self.shape[1])

    @property
    def expected_activation(self) -> Array:
        """`(features,)`: the mean over samples of a feature's value divided by the sample's length."""
        return self._activity[1]

    def ranked(self) -> list[int]:
        """Return the live features in descending order of expected activation, by absolute value for signed codes."""
        order = np.argsort(-np.abs(self.expected_activation), kind="stable")
        return [int(feature) for feature in order if self.active[feature]]

    def column(self, feature: int) -> tuple[Array, Array]:
        """Return the rows on which a feature is not zero, ascending, and its values there."""
        if not isinstance(feature, int | np.integer) or not 0 <= feature < self.shape[1]:
            raise InputError(f"feature is {feature!r}, expected a number from 0 to {self.shape[1] - 1}")
        if self.is_sparse:
            start, stop = self._by_feature.indptr[feature : feature + 2]
            rows, values = self._by_feature.indices[start:stop], self._by_feature.data[start:stop]
            return (rows, values) if values.all() else (rows[values != 0], values[values != 0])  # zeros may be stored
        values = self._codes[:, feature]
        rows = np.flatnonzero(values)
        return rows, values[rows]

    def feature(self, feature: int, top: int = 10) -> Card:
        """Return a feature's card with its `top` strongest samples."""
        return card(self, feature, top)

    # Other features made of these

    def take(self, rows: Any) -> "Features":
        """Return the features of some samples, given by row numbers or a mask, in this order."""
        rows = np.arange(len(self))[rows]
        return self._with_parts(
            _codes=self._codes[rows],
            _labels=None if self._labels is None else self._labels[rows],
            _samples=self._samples.take(rows),
            # Pixels are copied only when `pixels` is asked for.
            _pixel_rows=rows if self._pixel_rows is None else self._pixel_rows[rows],
        )

    def with_columns(self, columns: Any, provenance: Mapping[str, Any] | None = None) -> "Features":
        """Return the same samples with some of the features, in this order, with their names.

        Args:
            columns: `(features,)` indices, each at most once; -1 is a feature that is zero everywhere.
            provenance: entries to add to the provenance.

        Example:
            >>> features = Features(np.eye(3, dtype=np.float32), names={2: "owl"})
            >>> fewer = features.with_columns([2, 0])
            >>> fewer.shape, fewer.names, fewer.model_columns.tolist()
            ((3, 2), mappingproxy({0: 'owl'}), [2, 0])
        """
        chosen = np.asarray(columns)
        before = self.model_columns if self.model_columns is not None else np.arange(self.shape[1])
        of_model = np.where(chosen < 0, -1, before[chosen])
        return self._with_parts(
            _codes=checked_codes(select_columns(self._codes, chosen)),
            _names=moved(self._names, chosen),
            _suggestions=moved(self._suggestions, chosen),
            _provenance=plain_json({**self._provenance, **(provenance or {}), "columns": of_model.tolist()}),
        )

    def with_names(self, names: Mapping[int, str]) -> "Features":
        """Return the same features with these names added; an empty name removes one."""
        # Empty names are kept, so that saving removes the names from the folder too.
        return self._with_parts(_names={**self._names, **self._checked_names(names)})

    def with_provenance(self, entries: Mapping[str, Any]) -> "Features":
        """Return the same features with these entries added to the provenance."""
        return self._with_parts(_provenance=plain_json({**self._provenance, **entries}))

    def with_suggestions(self, suggestions: Mapping[int, Suggestion]) -> "Features":
        """Return the same features with these suggested names instead of earlier ones, as from `suggest_names`."""
        self._checked_names({feature: found.name for feature, found in suggestions.items()})
        return self._with_parts(_suggestions={int(feature): found for feature, found in suggestions.items()})

    # Files

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write to a folder, which holds either the complete old or the complete new features at any moment."""
        from nonneg.features._save import save

        return save(self, Path(path), overwrite)

    @staticmethod
    def load(path: str | Path) -> "Features":
        """Open a folder as memory maps; apart from some checks, data is read when it is needed."""
        from nonneg.features._load import load

        return load(Path(path))

    # Tables

    def to_frame(self) -> Any:
        """Return a DataFrame of pandas with one row per sample, indexed by its id.

        It has the columns `label` and `text`, if there are any, and one column per feature, titled by its name or
        `feature 17`; columns of sparse codes are sparse. Images are left out.

        Example:
            >>> features = Features(np.eye(2, dtype=np.float32), ids=["a", "b"], names={1: "owl"})
            >>> features.to_frame()  # doctest: +NORMALIZE_WHITESPACE
                feature 0  owl
            id
            a         1.0  0.0
            b         0.0  1.0
        """
        from nonneg.features._frames import to_frame

        return to_frame(self)

    @classmethod
    def from_frame(cls, frame: Any, codes: str | None = None, provenance: Mapping[str, Any] | None = None) -> Self:
        """Make features of a DataFrame of pandas or polars: what `to_frame` returns, or a table of your own.

        The columns `id`, `label` and `text` describe the samples, and a named index their ids. Every other column is a
        feature, titled by its name.

        Args:
            frame: the table.
            codes: a column of lists or arrays, one code per row, if features are not columns; other columns are then
                ignored.
            provenance: how the codes were made.
        """
        from nonneg.features._frames import parts_of_frame

        return cls(**parts_of_frame(frame, codes), provenance=provenance)

    # Implementation

    def _value(self, column: str, row: int) -> Any:
        if column not in self._samples.column_names:
            return None
        return self._samples.column(column)[range(len(self))[row]].as_py()

    def _checked_names(self, names: Mapping[int, str]) -> dict[int, str]:
        checked = checked_names(names)
        for feature in checked:
            if not 0 <= feature < self.shape[1]:
                raise InputError(f"names: feature {feature} is named, expected 0 to {self.shape[1] - 1}")
        return checked

    @cached_property
    def _by_feature(self) -> Any:
        by_feature = self._codes.tocsc()
        freeze(by_feature.data, by_feature.indices, by_feature.indptr)
        return by_feature

    @cached_property
    def _activity(self) -> tuple[Array, Array]:
        """`(samples,)` lengths and `(features,)` expected activation."""
        found = activity(self._codes)
        freeze(*found)
        return found
