"""`Features`: samples x features, with what is needed to read them. What everything else makes or consumes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from nonneg.errors import InputError

Array = npt.NDArray[Any]
EPSILON = 1e-5


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
    """

    feature: int
    name: str | None
    active: int
    frequency: float
    expected_activation: float
    top: tuple[int, ...]
    strengths: tuple[float, ...]
    labels: Mapping[str, float]


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
        self._codes = _checked_codes(codes)
        columns = {}
        for column, values, kind in (("id", ids, pa.string()), ("media", media, pa.large_binary())):
            columns[column] = None if values is None else _column(column, values, kind, len(self))
        columns["text"] = None if texts is None else _column("text", texts, pa.large_string(), len(self))
        if columns["id"] is not None and len(columns["id"].unique()) < len(self):
            raise InputError("ids: some are the same, expected a different id for each sample")
        self._samples = pa.table({name: column for name, column in columns.items() if column is not None})
        self._label_names = tuple(label_names)
        self._labels = None if labels is None else _checked_labels(np.asarray(labels), len(self), self._label_names)
        self._names = _checked_names(names or {}, self.shape[1])
        self._provenance = dict(provenance or {})

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
        return MappingProxyType(self._names)

    @property
    def provenance(self) -> Mapping[str, Any]:
        return MappingProxyType(self._provenance)

    def __repr__(self) -> str:
        samples, features = self.shape
        layout = "sparse" if self.is_sparse else "dense"
        labels = "no labels" if self._labels is None else f"{len(np.unique(self._labels))} labels"
        return f"Features({samples:,} samples x {features:,} features, {layout} {self._codes.dtype}, {labels})"

    # What one can ask

    def with_names(self, names: Mapping[int, str]) -> "Features":
        """The same features with these names added; an empty name takes one away."""
        merged = {**self._names, **_checked_names(names, self.shape[1])}
        kept = {feature: name for feature, name in merged.items() if name}
        return self._opened(self._codes, self._labels, self._label_names, self._samples, kept, self._provenance)

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

    @cached_property
    def expected_activation(self) -> Array:
        """`(features,)`: mean over samples of a feature's value over the sample's length."""
        scale = np.divide(1, self._lengths, out=np.zeros(len(self)), where=self._lengths > 0)
        return np.asarray(self._codes.T @ scale) / len(self)

    def feature(self, feature: int, top: int = 10) -> Card:
        """One feature's card."""
        rows, values = self.column(feature)
        is_active = np.abs(values) > EPSILON * self._lengths[rows]
        strongest = np.argsort(-values, kind="stable")[:top]
        return Card(
            feature=feature,
            name=self._names.get(feature),
            active=int(is_active.sum()),
            frequency=float(is_active.sum() / len(self)),
            expected_activation=float(self.expected_activation[feature]),
            top=tuple(int(row) for row in rows[strongest]),
            strengths=tuple(float(value) for value in values[strongest]),
            labels=MappingProxyType(self._label_shares(rows[is_active])),
        )

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write to a folder. At any moment it holds the old features or the new ones, whole."""
        from nonneg.features._store import save

        return save(self, Path(path), overwrite)

    @staticmethod
    def load(path: str | Path) -> "Features":
        """Open a folder, memory-mapped: nothing is read before it is needed."""
        from nonneg.features._store import load

        return load(Path(path))

    # How it works

    def _value(self, column: str, row: int) -> Any:
        if column not in self._samples.column_names:
            return None
        return self._samples.column(column)[range(len(self))[row]].as_py()

    @cached_property
    def _by_feature(self) -> Any:
        return self._codes.tocsc()

    @cached_property
    def _lengths(self) -> Array:
        if self.is_sparse:
            return np.asarray(sp.linalg.norm(self._codes, axis=1))
        return np.asarray(np.linalg.norm(self._codes.astype(np.float32, copy=False), axis=1))

    def _label_shares(self, rows: Array) -> dict[str, float]:
        if self._labels is None or not len(rows):
            return {}
        found, counts = np.unique(self._labels[rows], return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return {self.label_name(int(found[i])): float(counts[i] / len(rows)) for i in order}


def _checked_codes(codes: Any) -> Any:
    if sp.issparse(codes):
        codes = sp.csr_array(codes)
        if not codes.has_canonical_format or (codes.nnz and not codes.data.all()):
            codes = codes.copy()
            codes.sum_duplicates()
            codes.eliminate_zeros()
        values, kinds = codes.data, "float32 or float64"
    else:
        codes = np.asarray(codes).view()
        values, kinds = codes, "float16, float32 or float64"
    if codes.ndim != 2 or 0 in codes.shape:
        raise InputError(f"codes have shape {codes.shape}, expected (samples, features), neither of them 0")
    if values.dtype.name not in kinds:
        raise InputError(f"codes have dtype {values.dtype}, expected {kinds}")
    if not np.isfinite(values).all():
        raise InputError("codes hold NaN or infinite values, expected finite ones")
    for part in (codes.data, codes.indices, codes.indptr) if sp.issparse(codes) else (codes,):
        part.flags.writeable = False
    return codes


def _checked_labels(labels: Array, samples: int, names: tuple[str, ...]) -> Array:
    if labels.shape != (samples,) or labels.dtype.kind not in "iu":
        raise InputError(f"labels are {labels.dtype} of shape {labels.shape}, expected {samples} integers")
    labels = labels.astype(np.int64)
    if labels.min() < -1 or (names and labels.max() >= len(names)):
        bound = f"-1 to {len(names) - 1}" if names else "-1 or more"
        raise InputError(f"labels lie between {labels.min()} and {labels.max()}, expected {bound}")
    labels.flags.writeable = False
    return labels


def _checked_names(names: Mapping[int, str], features: int) -> dict[int, str]:
    for feature, name in names.items():
        if not 0 <= feature < features or not isinstance(name, str):
            raise InputError(
                f"names: {feature!r} is called {name!r}, expected a feature from 0 to {features - 1} and a string"
            )
    return dict(names)


def _column(name: str, values: Sequence[Any], kind: pa.DataType, samples: int) -> pa.ChunkedArray:
    if len(values) != samples:
        raise InputError(f"{name}: {len(values)} given, expected {samples}, one a sample")
    try:
        return pa.chunked_array([pa.array(values, kind)])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"{name}: expected {kind} for each sample ({error})") from error
