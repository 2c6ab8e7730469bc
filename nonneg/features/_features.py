"""`Features`: samples x features, with what is needed to read them. What everything else makes or consumes."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nonneg.codes import EPSILON, active_units
from nonneg.errors import InputError
from nonneg.features._checks import (
    Array,
    checked_codes,
    checked_label_names,
    checked_labels,
    freeze,
    plain_json,
    sample_column,
)
from nonneg.features._names import checked_names

_BLOCK = 16_384  # rows of a memory map that are looked at together


@dataclass(frozen=True)
class Card:
    """What one feature is about.

    Attributes:
        feature: its column.
        name: what people called it, or None.
        active: on how many samples it is above 1e-5 of the sample's length.
        frequency: `active` as a share of all samples.
        expected_activation: mean of its value over the sample's length.
        top: rows of its strongest samples, strongest first.
        strengths: its values there.
        labels: label name to share among the samples it is active on, largest first.
        media: the encoded images of `top`, None where there is none.
        texts: the texts of `top`, None where there is none.
    """

    feature: int
    name: str | None
    active: int
    frequency: float
    expected_activation: float
    top: tuple[int, ...]
    strengths: tuple[float, ...]
    labels: Mapping[str, float]
    media: tuple[bytes | None, ...] = field(default=(), repr=False)
    texts: tuple[str | None, ...] = field(default=(), repr=False)

    def _repr_html_(self) -> str:
        """In a notebook: its name, how often it is active, its labels and strongest samples."""
        from nonneg.features._card import card_html

        return card_html(self)


class Features:
    """Codes of samples with labels, samples, names and provenance. Immutable.

    Args:
        codes: `(samples, features)`, NumPy (float16 to float64) or SciPy sparse (float32 or float64).
            Not copied where it need not be: leave the arrays alone afterwards.
        ids: one string a sample, all different; row numbers if left out.
        labels: one integer a sample, -1 for unlabelled.
        label_names: what label 0, 1, … is called.
        media: one encoded image a sample (PNG or JPEG bytes), embedded so that it is never lost.
        texts: one text a sample.
        names: feature to name.
        provenance: how the codes came about; anything JSON can hold.

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
        texts: Sequence[str] | None = None,
        names: Mapping[int, str] | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self._codes = checked_codes(codes)
        columns = {
            "id": sample_column("ids", ids, pa.string(), len(self)),
            "media": sample_column("media", media, pa.large_binary(), len(self)),
            "text": sample_column("texts", texts, pa.large_string(), len(self)),
        }
        if columns["id"] is not None and len(columns["id"].unique()) < len(self):
            raise InputError("ids: some are the same, expected a different id for each sample")
        self._samples = pa.table({name: column for name, column in columns.items() if column is not None})
        self._label_names = checked_label_names(label_names)
        self._labels = None if labels is None else checked_labels(np.asarray(labels), len(self), self._label_names)
        self._names = self._checked_names(names or {})
        self._provenance = plain_json(provenance or {})

    @classmethod
    def _opened(
        cls,
        codes: Any,
        labels: Array | None,
        label_names: tuple[str, ...],
        samples: pa.Table,
        names: Mapping[int, str],
        provenance: dict[str, Any],
    ) -> "Features":
        """From parts that the store has already checked; nothing is read or copied."""
        self = cls.__new__(cls)
        self._codes, self._labels, self._label_names = codes, labels, label_names
        self._samples, self._names, self._provenance = samples, dict(names), provenance
        return self

    # What it holds

    @property
    def codes(self) -> Any:
        """`(samples, features)`: a read-only NumPy array or a SciPy `csr_array`."""
        return self._codes

    @property
    def shape(self) -> tuple[int, int]:
        samples, features = self._codes.shape
        return int(samples), int(features)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def is_sparse(self) -> bool:
        return bool(sp.issparse(self._codes))

    @property
    def labels(self) -> Array | None:
        """`(samples,)` int64, -1 for unlabelled, or None."""
        return self._labels

    @property
    def label_names(self) -> tuple[str, ...]:
        return self._label_names

    def label_name(self, label: int) -> str:
        return self._label_names[label] if 0 <= label < len(self._label_names) else str(label)

    @property
    def samples(self) -> pa.Table:
        """Arrow table of what is known of each sample: any of the columns id, media, text."""
        return self._samples

    def id(self, row: int) -> str:
        return str(self._value("id", row) if "id" in self._samples.column_names else range(len(self))[row])

    def media(self, row: int) -> bytes | None:
        """The sample's encoded image."""
        return self._value("media", row)  # type: ignore[no-any-return]

    def text(self, row: int) -> str | None:
        return self._value("text", row)  # type: ignore[no-any-return]

    @property
    def names(self) -> Mapping[int, str]:
        """Feature to name, of those that have one."""
        return MappingProxyType({feature: name for feature, name in self._names.items() if name})

    @property
    def provenance(self) -> dict[str, Any]:
        """How the codes came about; a copy."""
        return copy.deepcopy(self._provenance)

    def __repr__(self) -> str:
        samples, features = self.shape
        layout = "sparse" if self.is_sparse else "dense"
        labels = "no labels" if self._labels is None else f"{(np.unique(self._labels) >= 0).sum()} labels"
        return f"Features({samples:,} samples x {features:,} features, {layout} {self._codes.dtype}, {labels})"

    @property
    def layer(self) -> str:
        """Which layer of a model made the codes: "encoder" or "projector"."""
        return "encoder" if self._provenance.get("layer") == "encoder" else "projector"

    @property
    def kind(self) -> str:
        """What the samples are to a person: "images", "texts" or plain "samples"."""
        columns = self._samples.column_names
        return "images" if "media" in columns else "texts" if "text" in columns else "samples"

    @property
    def model_columns(self) -> Array | None:
        """`(features,)`: which column of the model's output each feature is, -1 for an empty one; None for all of them.

        A selection or a reordering (`with_columns`) changes it; whoever encodes a new sample for these features
        takes these columns of its code.
        """
        columns = self._provenance.get("columns")
        return None if columns is None else np.asarray(columns, np.int64)

    # What one can ask

    @cached_property
    def units(self) -> Any:
        """`(samples, features)` float64 `csr_array`: rows of length 1, inactive entries removed."""
        units = active_units(self._codes)
        freeze(units.data, units.indices, units.indptr)
        return units

    @cached_property
    def active(self) -> Array:
        """`(features,)` int64: on how many samples each feature is active."""
        return np.bincount(self.units.indices, minlength=self.shape[1])

    def take(self, rows: Any) -> "Features":
        """The features of some samples: row numbers or a mask, in this order."""
        rows = np.arange(len(self))[rows]
        return self._opened(
            self._codes[rows],
            None if self._labels is None else self._labels[rows],
            self._label_names,
            self._samples.take(rows),
            self._names,
            self._provenance,
        )

    def with_columns(self, columns: Any, provenance: Mapping[str, Any] | None = None) -> "Features":
        """The same samples with some of the features, in this order; names move along.

        Args:
            columns: `(features,)` indices, each at most once; -1 is a feature that is zero everywhere.
            provenance: what to add to the provenance.

        Example:
            >>> features = Features(np.eye(3, dtype=np.float32), names={2: "owl"})
            >>> fewer = features.with_columns([2, 0])
            >>> fewer.shape, fewer.names, fewer.model_columns.tolist()
            ((3, 2), mappingproxy({0: 'owl'}), [2, 0])
        """
        chosen = np.asarray(columns)
        before = self.model_columns if self.model_columns is not None else np.arange(self.shape[1])
        of_model = np.where(chosen < 0, -1, before[chosen])
        codes = checked_codes(_columns(self._codes, chosen))
        names = {i: self._names[int(old)] for i, old in enumerate(chosen) if int(old) in self._names}
        added = plain_json({**self._provenance, **(provenance or {}), "columns": of_model.tolist()})
        return self._opened(codes, self._labels, self._label_names, self._samples, names, added)

    def with_names(self, names: Mapping[int, str]) -> "Features":
        """The same features with these names added; an empty name takes one away."""
        # An empty name is kept, so that saving takes the name back in the folder too.
        merged = {**self._names, **self._checked_names(names)}
        return self._opened(self._codes, self._labels, self._label_names, self._samples, merged, self._provenance)

    def column(self, feature: int) -> tuple[Array, Array]:
        """Rows on which a feature is not zero, ascending, and its values there."""
        if not 0 <= feature < self.shape[1]:
            raise InputError(f"feature is {feature}, expected 0 to {self.shape[1] - 1}")
        if self.is_sparse:
            start, stop = self._by_feature.indptr[feature : feature + 2]
            return self._by_feature.indices[start:stop], self._by_feature.data[start:stop]
        values = self._codes[:, feature]
        rows = np.flatnonzero(values)
        return rows, values[rows]

    @property
    def expected_activation(self) -> Array:
        """`(features,)`: mean over samples of a feature's value over the sample's length."""
        return self._activity[1]

    def feature(self, feature: int, top: int = 10) -> Card:
        """One feature's card."""
        rows, values = self.column(feature)
        lengths, expected_activation = self._activity
        is_active = np.abs(values) > EPSILON * lengths[rows]
        strongest = np.argsort(-values, kind="stable")[:top]
        return Card(
            feature=feature,
            name=self._names.get(feature) or None,
            active=int(is_active.sum()),
            frequency=float(is_active.sum() / len(self)),
            expected_activation=float(expected_activation[feature]),
            top=tuple(int(row) for row in rows[strongest]),
            strengths=tuple(float(value) for value in values[strongest]),
            labels=MappingProxyType(self._label_shares(rows[is_active])),
            media=tuple(self.media(int(row)) for row in rows[strongest]),
            texts=tuple(self.text(int(row)) for row in rows[strongest]),
        )

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write to a folder. At any moment it holds the old features or the new ones, whole."""
        from nonneg.features._save import save

        return save(self, Path(path), overwrite)

    @staticmethod
    def load(path: str | Path) -> "Features":
        """Open a folder, memory-mapped: but for the checks, nothing is read before it is needed."""
        from nonneg.features._load import load

        return load(Path(path))

    # How it works

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
        """`(samples,)` lengths and `(features,)` expected activation, in float64, a block of a map at a time."""
        lengths, expected = np.zeros(len(self)), np.zeros(self.shape[1])
        for start in range(0, len(self), _BLOCK):
            block = self._codes[start : start + _BLOCK].astype(np.float64)
            squares = block.multiply(block).sum(axis=1) if self.is_sparse else np.square(block).sum(axis=1)
            length = np.sqrt(np.asarray(squares).ravel())
            lengths[start : start + _BLOCK] = length
            expected += block.T @ np.divide(1, length, out=np.zeros_like(length), where=length > 0)
        freeze(lengths, expected := expected / len(self))
        return lengths, expected

    def _label_shares(self, rows: Array) -> dict[str, float]:
        """Of the labelled among these rows."""
        if self._labels is None:
            return {}
        labels = self._labels[rows]
        found, counts = np.unique(labels[labels >= 0], return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return {self.label_name(int(found[i])): float(counts[i] / counts.sum()) for i in order}


def _columns(codes: Any, chosen: Array) -> Any:
    if (chosen < 0).any():
        # An empty column at the end, which -1 then names.
        empty = np.zeros((codes.shape[0], 1), codes.dtype)
        codes = sp.hstack((codes, sp.csr_array(empty)), "csr") if sp.issparse(codes) else np.hstack((codes, empty))
        chosen = np.where(chosen < 0, codes.shape[1] - 1, chosen)
    return codes[:, chosen]
