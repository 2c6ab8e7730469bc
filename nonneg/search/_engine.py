"""What an engine is: something that finds the rows with the largest inner products."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from nonneg.compiled import Lists
from nonneg.errors import InputError
from nonneg.payload import Array, Entry

if TYPE_CHECKING:
    from nonneg.search._table import Table

ENGINES = {"exact": "Exact", "seismic": "Seismic", "milvus": "Milvus"}


@dataclass(frozen=True, eq=False)
class Where:
    """Which rows may be hits.

    Attributes:
        labels: only rows with one of these labels.
        without: only rows on which none of these features is active (above zero).
        rows: only rows where this mask, `(rows,)` booleans, is true.
    """

    labels: tuple[int, ...] | None = None
    without: tuple[int, ...] = ()
    rows: Any = None

    @property
    def is_empty(self) -> bool:
        """Whether every row may be one."""
        return self.labels is None and not self.without and self.rows is None

    def checked_rows(self, rows: int) -> Array:
        """The mask, of the right type and length."""
        mask = np.asarray(self.rows)
        if mask.dtype != bool or mask.shape != (rows,):
            raise InputError(f"where is {mask.dtype} of shape {mask.shape}, expected {rows} booleans, one a row")
        return mask


@dataclass(frozen=True, eq=False)
class Found:
    """What queries found.

    Attributes:
        rows: `(queries, k)` int64, best first; -1 where fewer rows share a feature with the query.
        scores: `(queries, k)` float64, inner products; 0 there.
    """

    rows: Array
    scores: Array


class Engine(Protocol):
    """Finds the rows of a `Table` with the largest inner products; what it cannot do it refuses by name."""

    name: ClassVar[str]
    keeps_lists: ClassVar[bool]
    """Whether the table holds the codes; an engine that does not keeps them itself."""
    settings: ClassVar[tuple[str, ...]]
    """What can be set when it is built."""

    def search(self, table: "Table", queries: Lists, k: int, where: Where) -> Found:
        """The best of each query with a score above zero, ties by row."""

    def values(self, table: "Table", rows: Array, features: Array) -> Array:
        """`(rows, features)` float64: what these rows hold of these features."""

    def add(self, first: int, codes: sp.csr_array, labels: Array | None) -> None:
        """Take up rows `first`, `first + 1`, …; again, if they were taken up before a crash."""

    def delete(self, rows: Array) -> None:
        """Rows that are not to be found any more."""

    def store(self, folder: Path) -> tuple[Mapping[str, Any], Mapping[str, Entry]]:
        """Bring what the engine keeps into a folder; its settings and its files there."""

    def close(self) -> None:
        """Let go of whatever it holds open."""


def engine_class(name: str) -> Any:
    """The engine of that name; its library is imported only now."""
    if name not in ENGINES:
        raise InputError(f"engine is {name!r}, expected one of {', '.join(ENGINES)}")
    return getattr(importlib.import_module(f"nonneg.search._{name}"), ENGINES[name])


def library(module: str, engine: str) -> Any:
    """The library behind an engine."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"engine {engine} needs the package {module}, which cannot be imported ({reason}): "
            f"pip install 'nonneg[{engine}]'"
        ) from error


def refuse_unknown(engine: str, known: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Settings that an engine does not have, by name."""
    for name in settings:
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else "none"
            raise InputError(f"engine {engine} has no setting {name!r}, expected {expected}")
