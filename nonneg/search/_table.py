"""`Table`: the rows of an index, in parts, with their ids, labels and inverted lists. Immutable."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nonneg.compiled import Lists
from nonneg.errors import InputError
from nonneg.features import Features, sample_column
from nonneg.payload import Array, Entry, damaged, write_array
from nonneg.search._engine import Where
from nonneg.search._files import open_array
from nonneg.search._part import Part, merged, open_part, stored
from nonneg.search._rank import checked_mask
from nonneg.search._scoring import scores_at, values_at


@dataclass(frozen=True, eq=False)
class Table:
    """Rows 0, 1, … in the order of their addition. A row keeps its number when others are deleted.

    Attributes:
        features: the number of features.
        parts: the rows, in order.
        deleted: `(rows,)` booleans, true where a row was deleted.
    """

    features: int
    parts: tuple[Part, ...]
    deleted: Array

    @property
    def rows(self) -> int:
        """The number of rows, including deleted ones."""
        return self.parts[-1].first + self.parts[-1].rows

    @property
    def present(self) -> int:
        """The number of rows that are not deleted."""
        return self.rows - int(self.deleted.sum())

    @property
    def is_quantised(self) -> bool:
        """Whether values are stored in 8 bits."""
        lists = self.parts[0].lists
        return lists is not None and lists.values.dtype == np.uint8

    # Ids and labels

    def ids(self, rows: Array) -> list[str]:
        """Return the id of each row; a deleted row has none."""
        is_missing = (rows < 0) | (rows >= self.rows)
        is_missing[~is_missing] = self.deleted[rows[~is_missing]]
        if is_missing.any():
            raise InputError(f"row is {rows[is_missing][0]}, expected one of the {self.present:,} rows of the index")
        return [part.id(row) for row in map(int, rows) for part in self.parts if row in part]

    def rows_of(self, ids: Sequence[str]) -> Array:
        """Return the row of each id, -1 for an unknown or deleted one."""
        wanted = sample_column("ids", ids, pa.string(), len(ids))
        found = np.full(len(ids), -1)
        for part in self.parts:
            rows = part.rows_of(wanted)
            is_here = rows >= 0
            is_here[is_here] = ~self.deleted[rows[is_here]]
            found[is_here] = rows[is_here]
        return found

    def labels(self, rows: Array) -> Array:
        """Return the label of each row, -1 for an unlabelled one."""
        found = np.full(len(rows), -1)
        for part in self.parts:
            here = (rows >= part.first) & (rows < part.first + part.rows)
            if part.labels is not None:
                found[here] = part.labels[rows[here] - part.first]
        return found

    # Codes

    def values(self, rows: Array, features: Array) -> Array:
        """Return the values `(rows, features)` of these rows and features in float64."""
        found = np.zeros((len(rows), len(features)))
        for part in self.parts:
            here = np.flatnonzero((rows >= part.first) & (rows < part.first + part.rows))
            if len(here) and part.lists is not None:
                values = np.zeros((len(here), len(features)))
                values_at(part.lists, rows[here] - part.first, features, values)
                found[here] = values
        return found

    def scores(self, queries: Lists, rows: Array) -> Array:
        """Return the inner products `(queries, k)` of queries and their rows; 0 for negative row numbers."""
        scores = np.zeros(rows.shape)
        for part in self.parts:
            if part.lists is not None:
                scores_at(queries, part.lists, part.first, part.rows, rows, scores)
        return scores

    def allowed(self, where: Where) -> Array | None:
        """Return `(rows,)` booleans, true for the rows that may be returned; None if all may."""
        if where.is_empty:
            return self._present
        allowed = ~self.deleted
        if where.rows is not None:
            allowed &= checked_mask("where", where.rows, self.rows)
        for part in self.parts:
            own = allowed[part.first : part.first + part.rows]
            if where.labels is not None:
                own &= np.isin(-1 if part.labels is None else part.labels, where.labels)
            for feature in where.without:
                own[part.active_rows(feature)] = False
            for feature in where.require:
                is_active = np.zeros(part.rows, bool)
                is_active[part.active_rows(feature)] = True
                own &= is_active
        return allowed

    @cached_property
    def _present(self) -> Array | None:
        return ~self.deleted if self.deleted.any() else None

    # Changes

    def added(self, codes: sp.csr_array, features: Features, keep_lists: bool) -> "Table":
        """Return the table with these rows appended. Parts of similar size are merged, so there are never many."""
        new = Part.of(self.rows, codes, features, keep_lists, self.is_quantised)
        if any(part.ids is not None for part in (*self.parts, new)):
            known = self.rows_of([new.id(row) for row in range(new.first, new.first + new.rows)])
            if (known >= 0).any():
                id = new.id(new.first + int(np.argmax(known >= 0)))
                raise InputError(f"ids: {id!r} is in the index already, expected new ids; delete it first")
        deleted = np.concatenate((self.deleted, np.zeros(new.rows, bool)))
        parts = [*self.parts, new]
        while len(parts) > 1 and 2 * parts[-1].rows >= parts[-2].rows:
            later, earlier = parts.pop(), parts.pop()
            parts.append(merged(earlier, later, deleted))
        return replace(self, parts=tuple(parts), deleted=deleted)

    def without(self, rows: Array) -> "Table":
        """Return the table with these rows deleted."""
        deleted = self.deleted.copy()
        deleted[rows] = True
        return replace(self, deleted=deleted)

    # On disk

    def stored(self, folder: Path, rewrite: bool) -> tuple["Table", Entry | None]:
        """Write the parts that are not in this folder yet, or all if `rewrite`; return the table and its deletions."""
        parts = tuple(part if part.files is not None and not rewrite else stored(part, folder) for part in self.parts)
        if not self.deleted.any():
            return replace(self, parts=parts), None
        entry = write_array(folder, "deleted", np.packbits(self.deleted))
        return replace(self, parts=parts), {**entry, "rows": len(self.deleted)}


def open_table(folder: Path, features: int, parts: Sequence[Any], deleted: Entry | None) -> Table:
    """Open what `stored` wrote, memory-mapped and checked."""
    opened: list[Part] = []
    for described in parts:
        first = opened[-1].first + opened[-1].rows if opened else 0
        opened.append(open_part(folder, first, described, features))
    marks = np.zeros(sum(part.rows for part in opened), bool)
    if deleted is not None:
        packed = open_array(folder, deleted, "uint8", (-(-deleted["rows"] // 8),))
        marks[: deleted["rows"]] = np.unpackbits(packed, count=deleted["rows"])
    for part in opened:
        if part.ids is not None and part.ids.null_count:
            missing = np.flatnonzero(part.ids.is_null().to_numpy(zero_copy_only=False))
            if part.files is not None and not marks[part.first + missing].all():
                raise damaged(folder / part.files["ids"]["file"], "rows that are not deleted have no id")
    return Table(features, tuple(opened), marks)
