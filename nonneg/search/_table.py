"""`Table`: which rows an index has, in parts, with their ids, labels and lists of who holds a feature. Immutable."""

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
from nonneg.payload import Array, Entry, write_array
from nonneg.search._engine import Where
from nonneg.search._files import open_array
from nonneg.search._kernel import scores_at, values_at
from nonneg.search._part import Part, merged, open_part, stored


@dataclass(frozen=True, eq=False)
class Table:
    """Rows 0, 1, … in the order they came. A row keeps its number, also when others are deleted.

    Attributes:
        features: how many.
        parts: the rows, in order.
        gone: `(rows,)` booleans, true where a row was deleted; later rows may be missing.
    """

    features: int
    parts: tuple[Part, ...]
    gone: Array

    @property
    def rows(self) -> int:
        """All that ever came."""
        return self.parts[-1].first + self.parts[-1].rows

    @property
    def present(self) -> int:
        """Those that are still there."""
        return self.rows - int(self.gone.sum())

    @property
    def is_quantised(self) -> bool:
        """Whether values are kept in 8 bits."""
        lists = self.parts[0].lists
        return lists is not None and lists.values.dtype == np.uint8

    # Ids and labels

    def ids(self, rows: Array) -> list[str]:
        """The id of each row."""
        return [str(part.id(row)) for row in map(int, rows) for part in self.parts if row in part]

    def rows_of(self, ids: Sequence[str]) -> Array:
        """The row of each id, -1 where there is none."""
        wanted = pa.array(ids, pa.string())
        found = np.full(len(ids), -1)
        for part in self.parts:
            rows = part.rows_of(wanted)
            is_there = rows >= 0
            is_there[is_there] = ~self._gone(rows[is_there])
            found[is_there] = rows[is_there]
        return found

    def labels(self, rows: Array) -> Array:
        """The label of each row, -1 where it has none."""
        found = np.full(len(rows), -1)
        for part in self.parts:
            here = (rows >= part.first) & (rows < part.first + part.rows)
            if part.labels is not None:
                found[here] = part.labels[rows[here] - part.first]
        return found

    def _gone(self, rows: Array) -> Array:
        gone = np.zeros(len(rows), bool)
        known = rows < len(self.gone)
        gone[known] = self.gone[rows[known]]
        return gone

    # Codes

    def values(self, rows: Array, features: Array) -> Array:
        """`(rows, features)`: what these rows hold of these features, in float64."""
        found = np.zeros((len(rows), len(features)))
        for part in self.parts:
            here = np.flatnonzero((rows >= part.first) & (rows < part.first + part.rows))
            if len(here) and part.lists is not None:
                values = np.zeros((len(here), len(features)))
                values_at(part.lists, rows[here] - part.first, features, values)
                found[here] = values
        return found

    def scores(self, queries: Lists, rows: Array) -> Array:
        """`(queries, k)`: the inner products of queries and their rows; 0 for rows below zero."""
        scores = np.zeros(rows.shape)
        for part in self.parts:
            if part.lists is not None:
                scores_at(queries, part.lists, part.first, part.rows, rows, scores)
        return scores

    def allowed(self, where: Where) -> Array | None:
        """`(rows,)` booleans: which may be hits; None if all may."""
        if where.is_empty:
            return self._present
        allowed = np.ones(self.rows, bool) if where.rows is None else where.checked_rows(self.rows).copy()
        allowed[: len(self.gone)] &= ~self.gone
        for part in self.parts:
            own = allowed[part.first : part.first + part.rows]
            if where.labels is not None:
                own &= False if part.labels is None else np.isin(part.labels, where.labels)
            for feature in where.without:
                own[part.holders(feature)] = False
        return allowed

    @cached_property
    def _present(self) -> Array | None:
        if not self.gone.any():
            return None
        present = np.ones(self.rows, bool)
        present[: len(self.gone)] = ~self.gone
        return present

    # Changes

    def added(self, codes: sp.csr_array, ids: Sequence[str] | None, labels: Array | None, keep_lists: bool) -> "Table":
        """With these rows behind the others; parts of like size are merged, so that there are never many."""
        new = Part.of(self.rows, codes, ids, labels, keep_lists, self.is_quantised)
        if ids is not None or any(part.ids is not None for part in self.parts):
            known = self.rows_of([new.id(row) for row in range(new.first, new.first + new.rows)])
            if (known >= 0).any():
                at = int(np.argmax(known >= 0))
                raise InputError(
                    f"ids: {new.id(new.first + at)!r} is indexed already, expected new ones; delete it first"
                )
        parts = [*self.parts, new]
        while len(parts) > 1 and 2 * parts[-1].rows >= parts[-2].rows:
            later, earlier = parts.pop(), parts.pop()
            parts.append(merged(earlier, later, self.features, self.gone))
        return replace(self, parts=tuple(parts))

    def without(self, rows: Array) -> "Table":
        """With these rows deleted."""
        gone = np.zeros(self.rows, bool)
        gone[: len(self.gone)] = self.gone
        gone[rows] = True
        return replace(self, gone=gone)

    # On disk

    def stored(self, folder: Path, anew: bool) -> tuple["Table", Entry | None]:
        """Write what is not in this folder yet (everything, if `anew`); the table as it is there, and its deletions."""
        parts = tuple(part if part.files is not None and not anew else stored(part, folder) for part in self.parts)
        if not self.gone.any():
            return replace(self, parts=parts), None
        return replace(self, parts=parts), {
            **write_array(folder, "deleted", np.packbits(self.gone)),
            "rows": len(self.gone),
        }


def open_table(folder: Path, features: int, parts: Sequence[Any], deleted: Entry | None) -> Table:
    """What `stored` wrote, memory-mapped and checked."""
    opened: list[Part] = []
    for described in parts:
        first = opened[-1].first + opened[-1].rows if opened else 0
        opened.append(open_part(folder, first, described, features))
    gone = np.zeros(0, bool)
    if deleted is not None:
        packed = open_array(folder, deleted, "uint8", (-(-deleted["rows"] // 8),))
        gone = np.unpackbits(packed, count=deleted["rows"]).astype(bool)
    return Table(features, tuple(opened), gone)
