"""`RawGraph` and `RawGraphs`: graphs as sources read them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nonneg.labels import is_labelled, label_numbers


@dataclass(frozen=True, eq=False)
class RawGraph:
    """A graph as it was given.

    Attributes:
        name: where it comes from, as in `Source`.
        where: what error messages call it.
        nodes: number of nodes.
        ends: `(2, edges)` int64, sources and targets.
        weights: `(edges,)` or None.
        attributes: `(nodes, attributes)`, an array or a SciPy matrix; None if there are none.
        labels: `(nodes,)` int64, -1 if unlabelled, or None.
        label_names, ids, attribute_names: names, or empty.
        split: as in `Source`.
        factors: what a generated graph was drawn from: name to values `(nodes,)` and the names of these values.
    """

    name: str
    where: str
    nodes: int
    ends: npt.NDArray[np.int64]
    weights: Any = None
    attributes: Any = None
    labels: Any = None
    label_names: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    attribute_names: tuple[str, ...] = ()
    split: Any = None
    factors: Mapping[str, tuple[npt.NDArray[np.int64], tuple[str, ...]]] = field(default_factory=dict)


def names_digest(names: tuple[str, ...]) -> str:
    """Return a hash of the names of attributes; empty if they have none."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16] if names else ""


@dataclass(frozen=True, eq=False)
class RawGraphs:
    """Many graphs as they were given.

    Attributes:
        name, where: as in `RawGraph`.
        union: all of them as one graph, whose nodes are numbered one graph after the other.
        sizes: `(graphs,)` int64, nodes of each.
        labels: `(graphs,)` int64, -1 if unlabelled, or None.
        label_names, ids: names, or empty.
    """

    name: str
    where: str
    union: RawGraph
    sizes: npt.NDArray[np.int64]
    labels: Any = None
    label_names: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


def labels_of(values: Any, where: str) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...]]:
    """Return labels as numbers and their names; None and no names if there is no label at all."""
    return label_numbers(values, where) if is_labelled(values).any() else (None, ())
