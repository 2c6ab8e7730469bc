"""`Part`: rows that came together, as lists of who holds a feature, with their ids and labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from nonneg.errors import InputError
from nonneg.payload import Array, Entry, write_array, write_table
from nonneg.search._files import damaged, open_array, open_strings
from nonneg.search._kernel import Holders


@dataclass(frozen=True, eq=False)
class Part:
    """Rows `first` to `first + rows`.

    Attributes:
        first: number of its first row.
        rows: how many.
        ids: one a row; None where row numbers are the ids.
        labels: `(rows,)` int32, -1 for none; None where no row has one.
        lists: of each feature the rows that hold it, counted from `first`, and their values, float32 or 8 bits; None
            where an engine keeps codes elsewhere.
        files: what `meta.json` says of it; None before it is written.
    """

    first: int
    rows: int
    ids: pa.Array | None
    labels: Array | None
    lists: Holders | None
    files: Mapping[str, Entry] | None = None

    @classmethod
    def of(
        cls,
        first: int,
        codes: sp.csr_array,
        ids: Sequence[str] | None,
        labels: Array | None,
        keep_lists: bool,
        quantised: bool,
    ) -> "Part":
        """From codes; ids and labels are checked."""
        rows = codes.shape[0]
        own = None if ids is None else _checked_ids(ids, rows)
        if labels is not None:
            labels = np.asarray(labels)
            if labels.shape != (rows,) or labels.dtype.kind not in "iu" or labels.min() < -1:
                found = f"{labels.dtype} of shape {labels.shape}"
                raise InputError(f"labels are {found}, expected {rows} whole numbers, -1 or more")
            labels = labels.astype(np.int32)
        return cls(first, rows, own, labels, _lists(codes, quantised) if keep_lists else None)

    def __contains__(self, row: int) -> bool:
        return self.first <= row < self.first + self.rows

    def id(self, row: int) -> str:
        return str(row) if self.ids is None else str(self.ids[row - self.first].as_py())

    def rows_of(self, wanted: pa.Array) -> Array:
        """The row of each id that is here, -1 for the others."""
        if self.ids is not None:
            places = pc.fill_null(pc.index_in(wanted, value_set=self.ids), -1).to_numpy(zero_copy_only=False)
            return np.where(places < 0, -1, places.astype(np.int64) + self.first)
        numbers = [int(text) if text.isdecimal() and str(int(text)) == text else -1 for text in wanted.to_pylist()]
        rows = np.array(numbers, np.int64)
        return np.where((rows >= self.first) & (rows < self.first + self.rows), rows, -1)

    def holders(self, feature: int) -> Array:
        """The rows on which a feature is not zero, counted from `first`."""
        assert self.lists is not None
        start, stop = self.lists.starts[feature : feature + 2]
        return np.asarray(self.lists.places[start:stop])


def merged(earlier: Part, later: Part, features: int, gone: Array) -> Part:
    """Two neighbouring parts as one; what deleted rows held is left out."""
    rows = earlier.rows + later.rows
    ids = None
    if earlier.ids is not None or later.ids is not None:
        ids = pa.concat_arrays([_ids_of(part) for part in (earlier, later)])
    labels = None
    if earlier.labels is not None or later.labels is not None:
        none = (np.full(part.rows, -1, np.int32) if part.labels is None else part.labels for part in (earlier, later))
        labels = np.concatenate(list(none))
    if earlier.lists is None or later.lists is None:
        return Part(earlier.first, rows, ids, labels, None)
    stays = np.ones(rows, bool)
    known = gone[earlier.first : earlier.first + rows]
    stays[: len(known)] &= ~known
    places, values, lengths = [], [], []
    for feature in range(features):
        both = []
        for part, lists in ((earlier, earlier.lists), (later, later.lists)):
            start, stop = lists.starts[feature : feature + 2]
            here = lists.places[start:stop] + np.int32(part.first - earlier.first)
            kept = stays[here]
            both.append((here[kept], lists.values[start:stop][kept] * lists.scales[feature]))
        places += [here for here, _ in both]
        values += [value for _, value in both]
        lengths.append(sum(len(here) for here, _ in both))
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    quantised = earlier.lists.values.dtype == np.uint8
    lists = _held(starts, np.concatenate(places), np.concatenate(values), quantised)
    return Part(earlier.first, rows, ids, labels, lists)


def stored(part: Part, folder: Path) -> Part:
    """Write a part; it knows its files then."""
    files = {}
    if part.ids is not None:
        files["ids"] = write_table(folder, "ids", pa.table({"ids": part.ids}))
    if part.labels is not None:
        files["labels"] = write_array(folder, "labels", part.labels)
    if part.lists is not None:
        is_plain = part.lists.values.dtype == np.float32
        for name, array in part.lists._asdict().items():
            if name != "scales" or not is_plain:
                files[name] = write_array(folder, name, array)
    return replace(part, files=files)


def open_part(folder: Path, first: int, described: Mapping[str, Any], features: int) -> Part:
    """What `stored` wrote, memory-mapped; what could lead a search outside of its arrays is looked at."""
    rows, files = described["rows"], described["files"]
    ids = open_strings(folder, files["ids"], "ids", rows) if "ids" in files else None
    labels = open_array(folder, files["labels"], "int32", (rows,)) if "labels" in files else None
    return Part(first, rows, ids, labels, _opened_lists(folder, files, rows, features), files)


def _opened_lists(folder: Path, files: Mapping[str, Entry], rows: int, features: int) -> Holders | None:
    if "starts" not in files:
        return None
    starts = open_array(folder, files["starts"], "int64", (features + 1,))
    entries = int(starts[-1])
    if starts[0] != 0 or entries < 0 or (starts[1:] < starts[:-1]).any():
        raise damaged(folder / files["starts"]["file"], "bounds of lists do not ascend from 0")
    places = open_array(folder, files["places"], "int32", (entries,))
    values = open_array(folder, files["values"], "uint8" if "scales" in files else "float32", (entries,))
    scales = open_array(folder, files["scales"], "float64", (features,)) if "scales" in files else _ones(features)
    if entries and (places.min() < 0 or places.max() >= rows):
        raise damaged(folder / files["places"]["file"], f"a row lies outside 0 to {rows - 1}")
    return Holders(starts, places, values, scales)


def _checked_ids(ids: Any, rows: int) -> pa.Array:
    if len(ids) != rows:
        raise InputError(f"ids: {len(ids)} given, expected {rows}, one a row")
    try:
        column = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        raise InputError(f"ids: expected a string for each row ({error})") from error
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column.null_count or len(column.unique()) < rows:
        raise InputError("ids: some are missing or the same, expected a different one for each row")
    return column


def _ids_of(part: Part) -> pa.Array:
    if part.ids is not None:
        return part.ids
    return pa.array([str(row) for row in range(part.first, part.first + part.rows)], pa.string())


def _lists(codes: sp.csr_array, quantised: bool) -> Holders:
    by_feature = codes.tocsc()
    return _held(by_feature.indptr, by_feature.indices, by_feature.data, quantised)


def _held(starts: Array, places: Array, values: Array, quantised: bool) -> Holders:
    scales = _ones(len(starts) - 1)
    if quantised:
        scales, values = _rounded(starts, values)
    held = Holders(
        starts.astype(np.int64, copy=False),
        places.astype(np.int32, copy=False),
        values.astype(np.uint8 if quantised else np.float32, copy=False),
        scales,
    )
    for array in held:  # read-only, as mapped files are: for the compiled loops both are then of one type
        array.flags.writeable = False
    return held


def _rounded(starts: Array, values: Array) -> tuple[Array, Array]:
    """The scale of each feature, a power of two, and values in 1 to 255 of it: what is active stays active."""
    lengths = np.diff(starts)
    largest = np.zeros(len(lengths))
    filled = np.flatnonzero(lengths)
    if len(filled):
        largest[filled] = np.maximum.reduceat(values, starts[filled])
    scales = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 255) / 255)))
    return scales, np.rint(values / np.repeat(scales, lengths)).clip(1, 255)


def _ones(features: int) -> Array:
    ones = np.ones(features)
    ones.flags.writeable = False
    return ones
