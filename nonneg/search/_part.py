"""`Part`: rows that were added together, as inverted lists with ids and labels."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from nonneg.features import Features
from nonneg.payload import Array, Entry, damaged, write_array, write_table
from nonneg.search._files import open_array, open_strings
from nonneg.search._query import numbered
from nonneg.search._scoring import InvertedLists


@dataclass(frozen=True, eq=False)
class Part:
    """Rows `first` to `first + rows - 1` of a table.

    Attributes:
        first: the number of its first row.
        rows: the number of rows.
        ids: one per row, null for rows deleted before a merge; None if row numbers are the ids.
        labels: `(rows,)` int32, -1 for unlabelled; None if none was given.
        lists: inverted lists with rows counted from `first`, values in float32 or 8 bits; None if the engine stores
            the codes elsewhere.
        files: its entries in `meta.json`; None before it is written.
    """

    first: int
    rows: int
    ids: pa.Array | None
    labels: Array | None
    lists: InvertedLists | None
    files: Mapping[str, Entry] | None = None

    @classmethod
    def of(cls, first: int, codes: sp.csr_array, features: Features, keep_lists: bool, quantised: bool) -> "Part":
        """Make a part of codes in the form that an index stores, with the ids and labels of the features."""
        ids = features.samples["id"].combine_chunks() if "id" in features.samples.column_names else None
        labels = None if features.labels is None else features.labels.astype(np.int32)
        return cls(first, len(features), ids, labels, _lists(codes, quantised) if keep_lists else None)

    def __contains__(self, row: int) -> bool:
        return self.first <= row < self.first + self.rows

    def id(self, row: int) -> str:
        """Return the id of a row that is not deleted."""
        return str(row) if self.ids is None else str(self.ids[row - self.first].as_py())

    def rows_of(self, wanted: pa.Array) -> Array:
        """Return the row of each id, -1 for ids that are not in this part."""
        if self.ids is not None:
            places = pc.fill_null(pc.index_in(wanted, value_set=self.ids), -1).to_numpy(zero_copy_only=False)
            return np.where(places < 0, -1, places.astype(np.int64) + self.first)
        numbers = [numbered(id) if id == str(numbered(id)) else -1 for id in wanted.to_pylist()]
        rows = np.array([-1 if isinstance(number, str) else number for number in numbers], np.int64)
        return np.where((rows >= self.first) & (rows < self.first + self.rows), rows, -1)

    def active_rows(self, feature: int) -> Array:
        """Return the rows on which a feature is active, counted from `first`."""
        assert self.lists is not None
        start, stop = self.lists.starts[feature : feature + 2]
        return np.asarray(self.lists.places[start:stop])


def merged(earlier: Part, later: Part, deleted: Array) -> Part:
    """Merge two neighbouring parts; the codes and ids of deleted rows are dropped."""
    rows = earlier.rows + later.rows
    is_kept = ~deleted[earlier.first : earlier.first + rows]
    ids = None
    if earlier.ids is not None or later.ids is not None:
        # A deleted id may have been added again: only one of the two may remain.
        ids = pc.if_else(pa.array(is_kept), pa.concat_arrays([_ids_of(part) for part in (earlier, later)]), None)
    labels = None
    if earlier.labels is not None or later.labels is not None:
        both = [np.full(part.rows, -1, np.int32) if part.labels is None else part.labels for part in (earlier, later)]
        labels = np.concatenate(both)
    if earlier.lists is None or later.lists is None:
        return Part(earlier.first, rows, ids, labels, None)
    codes = sp.vstack([_codes_of(earlier.rows, earlier.lists), _codes_of(later.rows, later.lists)], "csr")
    codes.data *= np.repeat(is_kept, np.diff(codes.indptr))
    codes.eliminate_zeros()
    return Part(earlier.first, rows, ids, labels, _lists(codes, quantised=earlier.lists.values.dtype == np.uint8))


def stored(part: Part, folder: Path) -> Part:
    """Write a part; return it with the entries of its files."""
    files = {}
    if part.ids is not None:
        files["ids"] = write_table(folder, "ids", pa.table({"ids": part.ids}))
    labels, lists = part.labels, part.lists
    if labels is None and part.ids is None and (lists is None or len(lists.places) < part.rows):
        labels = np.full(part.rows, -1, np.int32)  # the files must prove that there are so many rows
    if labels is not None:
        files["labels"] = write_array(folder, "labels", labels)
    if lists is not None:
        is_plain = lists.values.dtype == np.float32
        for name, array in lists._asdict().items():
            if name != "scales" or not is_plain:
                files[name] = write_array(folder, name, array)
    return replace(part, files=files)


def open_part(folder: Path, first: int, described: Mapping[str, Any], features: int) -> Part:
    """Open what `stored` wrote, memory-mapped; bounds that a search relies on are checked."""
    rows, files = described["rows"], described["files"]
    ids = open_strings(folder, files["ids"], "ids", rows) if "ids" in files else None
    labels = open_array(folder, files["labels"], "int32", (rows,)) if "labels" in files else None
    return Part(first, rows, ids, labels, _opened_lists(folder, files, rows, features), files)


def _opened_lists(folder: Path, files: Mapping[str, Entry], rows: int, features: int) -> InvertedLists | None:
    if "starts" not in files:
        return None
    starts = open_array(folder, files["starts"], "int64", (features + 1,))
    entries = int(starts[-1])
    if starts[0] != 0 or entries < 0 or (starts[1:] < starts[:-1]).any():
        raise damaged(folder / files["starts"]["file"], "the starts of its lists do not ascend from 0")
    places = open_array(folder, files["places"], "int32", (entries,))
    values = open_array(folder, files["values"], "uint8" if "scales" in files else "float32", (entries,))
    scales = open_array(folder, files["scales"], "float64", (features,)) if "scales" in files else _ones(features)
    if entries and (places.min() < 0 or places.max() >= rows):
        raise damaged(folder / files["places"]["file"], f"a row is outside 0 to {rows - 1}")
    return InvertedLists(starts, places, values, scales)


def _ids_of(part: Part) -> pa.Array:
    if part.ids is not None:
        return part.ids
    return pa.array([str(row) for row in range(part.first, part.first + part.rows)], pa.string())


def _codes_of(rows: int, lists: InvertedLists) -> sp.csr_array:
    values = lists.values * np.repeat(lists.scales, np.diff(lists.starts))
    return sp.csc_array((values, lists.places, lists.starts), shape=(rows, len(lists.scales))).tocsr()


def _lists(codes: sp.csr_array, quantised: bool) -> InvertedLists:
    by_feature = codes.tocsc()
    scales, values = _ones(codes.shape[1]), by_feature.data
    if quantised:
        scales, values = _rounded(by_feature.indptr, values)
    lists = InvertedLists(
        by_feature.indptr.astype(np.int64, copy=False),
        by_feature.indices.astype(np.int32, copy=False),
        values.astype(np.uint8 if quantised else np.float32, copy=False),
        scales,
    )
    for array in lists:  # read-only like mapped files, so that the compiled loops see one type
        array.flags.writeable = False
    return lists


def _rounded(starts: Array, values: Array) -> tuple[Array, Array]:
    """Return each feature's scale, a power of two, and values as 1 to 255 times it: active entries stay active."""
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
