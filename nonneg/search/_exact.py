"""The exact engine: inverted lists in the table, every score equal to the sum that a plain loop computes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from nonneg.compiled import Lists
from nonneg.payload import Array, Entry
from nonneg.search._engine import Found, Where
from nonneg.search._scoring import Segment, best
from nonneg.search._table import Table


class Exact:
    """Scans the inverted lists of the query's features. It needs no server and no extra, and uses every core."""

    name: ClassVar[str] = "exact"
    keeps_lists: ClassVar[bool] = True
    settings: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def build(cls, table: Table, codes: sp.csr_array) -> "Exact":
        """Build nothing: the table holds the lists."""
        return cls()

    @classmethod
    def open(cls, folder: Path, table: Table, settings: Mapping[str, Any], files: Mapping[str, Entry]) -> "Exact":
        """Open nothing: the table holds the lists."""
        return cls()

    def search(self, table: Table, queries: Lists, k: int, where: Where) -> Found:
        allowed = table.allowed(where)
        everything = np.zeros(0, bool)
        segments = [
            Segment(
                part.first,
                part.rows,
                part.lists,
                everything if allowed is None else allowed[part.first : part.first + part.rows],
            )
            for part in table.parts
            if part.lists is not None
        ]
        return Found(*best(queries, segments, min(k, table.rows)))

    def values(self, table: Table, rows: Array, features: Array) -> Array:
        return table.values(rows, features)

    def add(self, first: int, codes: sp.csr_array, labels: Array | None) -> None:
        pass

    def delete(self, rows: Array) -> None:
        pass

    def store(self, folder: Path) -> tuple[Mapping[str, Any], Mapping[str, Entry]]:
        return {}, {}

    def close(self) -> None:
        pass
