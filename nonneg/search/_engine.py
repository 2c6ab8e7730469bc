"""The interface of an engine: it finds the rows with the largest inner products."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import scipy.sparse as sp

from nonneg.compiled import Lists
from nonneg.errors import InputError
from nonneg.payload import Array, Entry

if TYPE_CHECKING:
    from nonneg.search._table import Table

ENGINES = {"exact": "Exact", "seismic": "Seismic", "milvus": "Milvus"}
"""Engines of search: name to class."""


@dataclass(frozen=True, eq=False)
class Where:
    """A filter: which rows may be returned.

    Attributes:
        labels: only rows with one of these labels.
        without: only rows on which none of these features is active.
        require: only rows on which all of these features are active.
        rows: only rows where this mask, `(rows,)` booleans, is true.
    """

    labels: tuple[int, ...] | None = None
    without: tuple[int, ...] = ()
    require: tuple[int, ...] = ()
    rows: Any = None

    @property
    def is_empty(self) -> bool:
        """Whether all rows may be returned."""
        return self.labels is None and not self.without and not self.require and self.rows is None


@dataclass(frozen=True, eq=False)
class Found:
    """The results of queries.

    Attributes:
        rows: `(queries, k)` int64, best first; -1 in the places that remain if fewer than `k` rows score above 0.
        scores: `(queries, k)` float64, inner products; 0 in those places.
    """

    rows: Array
    scores: Array


class Engine:
    """Finds the rows of a `Table` with the largest inner products. A request it cannot serve is an `InputError`.

    Its stored codes hold only active entries, so an entry is active if and only if it is stored. The defaults below are
    those of an engine that stores nothing beside the table.
    """

    name: ClassVar[str]
    keeps_lists: ClassVar[bool] = True
    """Whether the table holds the codes; if not, the engine stores them itself."""
    settings: ClassVar[tuple[str, ...]] = ()
    """Names of the settings that `build` takes."""

    @classmethod
    def build(cls, table: "Table", codes: sp.csr_array) -> "Engine":
        """Index the codes of a table's rows."""
        return cls()

    @classmethod
    def open(cls, folder: Path, table: "Table", settings: Mapping[str, Any], files: Mapping[str, Entry]) -> "Engine":
        """Open what `store` wrote; `settings` also holds the `uri` that the user gave, or an empty string."""
        return cls()

    def search(self, table: "Table", queries: Lists, k: int, where: Where) -> Found:
        """Return the best rows of each query with a score above 0, ties in order of rows."""
        raise NotImplementedError

    def values(self, table: "Table", rows: Array, features: Array) -> Array:
        """Return the stored values `(rows, features)` of these rows and features in float64."""
        return table.values(rows, features)

    def add(self, first: int, codes: sp.csr_array, labels: Array | None) -> None:
        """Add rows `first`, `first + 1`, …, replacing any that an interrupted call has left there."""

    def delete(self, rows: Array) -> None:
        """Exclude rows from all later results."""

    def store(self, folder: Path) -> tuple[Mapping[str, Any], Mapping[str, Entry]]:
        """Write the engine's data to a folder; return its settings and its files there."""
        return {}, {}

    def close(self) -> None:
        """Release connections and temporary files."""


def engine_class(name: str) -> Any:
    """Return the class of an engine; only this imports its library."""
    if name not in ENGINES:
        raise InputError(f"engine is {name!r}, expected one of {', '.join(ENGINES)}")
    return getattr(importlib.import_module(f"nonneg.search._{name}"), ENGINES[name])


def check_settings(engine: Any, settings: Mapping[str, Any]) -> None:
    """Raise an error for the first setting that an engine does not have."""
    for name in settings:
        if name not in engine.settings:
            expected = f"one of {', '.join(engine.settings)}" if engine.settings else "none"
            raise InputError(f"engine {engine.name} has no setting {name!r}, expected {expected}")
