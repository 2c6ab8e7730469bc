"""The exact engine: inverted lists in the table, every score equal to the sum that a plain loop computes."""

import numpy as np

from nonneg.compiled import Lists
from nonneg.search._engine import Engine, Found, Where
from nonneg.search._scoring import Segment, best
from nonneg.search._table import Table


class Exact(Engine):
    """Scans the inverted lists of the query's features. It needs no server and no extra, and uses every core."""

    name = "exact"

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
