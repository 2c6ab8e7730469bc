"""Many graphs: a folder of the TU collection, the text format of pytorch_DGCNN, datasets of PyTorch Geometric."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nonneg.durable import read_bounded
from nonneg.errors import InputError
from nonneg.labels import UNLABELLED
from nonneg.modalities.graphs._raw import RawGraph, RawGraphs, labels_of
from nonneg.modalities.graphs.sources._geometric import array_of, from_geometric, is_dataset, name_of

TAG = "tag"
"""How the names of attributes begin that stand for one value of a tag."""
_INDICATOR = "_graph_indicator.txt"
_TU_PARTS = ("graph_indicator", "A", "node_labels", "node_attributes", "graph_labels")
_SHOWN = 8  # names in an error message
_Labels = tuple[npt.NDArray[np.int64] | None, tuple[str, ...]]  # numbers `(graphs,)` and their names


def tu_prefix(folder: Path) -> Path | None:
    """Return the common beginning of the files of a TU folder, such as MUTAG/MUTAG, or None."""
    found = sorted(folder.glob(f"*{_INDICATOR}"))
    return folder / found[0].name.removesuffix(_INDICATOR) if found else None


def from_tu(prefix: Path) -> RawGraphs:
    """Read NAME_A.txt, NAME_graph_indicator.txt and, if present, the labels of graphs and nodes and the attributes."""
    where = str(prefix.parent)
    indicator, edges, tags, attributes, classes = (prefix.with_name(f"{prefix.name}_{part}.txt") for part in _TU_PARTS)
    owner = _whole(indicator, _numbers(indicator))[:, 0] - 1
    if (np.diff(owner) < 0).any() or owner[0] < 0 or owner[-1] >= len(owner):
        raise InputError(f"{where}: {indicator.name} is not in ascending order from 1, expected nodes by graph")
    sizes = np.bincount(owner)
    ends = _whole(edges, _numbers(edges)).T - 1
    if len(ends) != 2:
        raise InputError(f"{where}: {edges.name} has {len(ends)} columns, expected 2, the ends of an edge")
    kinds = _whole(tags, _numbers(tags, len(owner))).T if tags.exists() else ()
    given = _numbers(attributes, len(owner)) if attributes.exists() else None
    labels = _tu_labels(classes, _numbers(classes, len(sizes))[:, 0]) if classes.exists() else (None, ())
    return _collection(prefix.name, where, sizes, ends, _columns(kinds, given), labels)


def from_text(path: Path) -> RawGraphs:
    """Read the text format of pytorch_DGCNN: a graph is a line `nodes label`, then `tag neighbours …` for each node."""
    where = str(path)
    lines = iter(_lines(path))
    sizes, labels, attributes = [], [], []
    tags: list[int] = []
    ends: list[tuple[int, int]] = []
    number = 0
    try:
        for _ in range(int(next(lines))):
            number += 1
            nodes, label = map(int, next(lines).split()[:2])
            first = len(tags)
            for node in range(nodes):
                number += 1
                tag, degree, *others = next(lines).split()
                neighbours = [int(other) for other in others[: int(degree)]]
                if len(neighbours) != int(degree):
                    raise ValueError
                if not all(0 <= other < nodes for other in neighbours):
                    raise InputError(
                        f"{where}: line {number + 1} names a neighbour of node {node} outside 0 to {nodes - 1}"
                    )
                tags.append(int(tag))
                ends.extend((first + node, first + other) for other in neighbours)
                attributes.append([float(value) for value in others[int(degree) :]])
            sizes.append(nodes)
            labels.append(label)
        further = next((line for line, text in enumerate(lines, number + 2) if text.strip()), None)
        if further is not None:
            found = f"{where}: line {further} follows the last of the {len(sizes):,} graphs that line 1 announces"
            raise InputError(f"{found}, expected the end of the file")
    except InputError:  # a ValueError, too
        raise
    except (ValueError, StopIteration) as error:
        found = "ends" if isinstance(error, StopIteration) else "is not as expected"
        expected = "the number of graphs, then `nodes label` and `tag neighbours …` lines, as in pytorch_DGCNN"
        raise InputError(f"{where}: line {number + 1} {found}, expected {expected}") from error
    if len({len(row) for row in attributes}) > 1:
        raise InputError(f"{where}: nodes have different numbers of attributes, expected the same number")
    columns = _columns([np.array(tags)], np.array(attributes) if any(attributes) else None)
    edges = np.array(ends, np.int64).reshape(-1, 2).T
    return _collection(path.stem, where, np.array(sizes, np.int64), edges, columns, _numbered(np.array(labels)))


def from_geometric_graphs(data: Any) -> RawGraphs:
    """Read a dataset of PyTorch Geometric; `y` of a graph is its label."""
    if not is_dataset(data) and not isinstance(data, list | tuple):
        raise InputError("data is one graph, expected several; the recipe graph trains on the nodes of one")
    parts: list[RawGraph] = []
    given: list[Any] = []
    for number, each in enumerate(data):
        y = getattr(each, "y", None)
        values = [None] if y is None else array_of(y).ravel().tolist()
        if len(values) != 1:
            raise InputError(f"data: y of graph {number} has {len(values)} entries, expected one number, its class")
        given += values
        bare = each.clone()
        bare.y = None
        parts.append(from_geometric(bare))
    return joined(name_of(data), parts, labels_of(given, "data: y"))


def with_attributes(graph: RawGraph, names: tuple[str, ...]) -> RawGraph:
    """Return a graph with the attributes of these names, in this order; tags that it does not have are 0.

    Without names, the attributes are those of the graph; a tag that is the same everywhere is none.
    """
    given = graph.attribute_names
    if not names and len(given) == 1 and given[0].startswith(TAG):
        return replace(graph, attributes=None, attribute_names=())
    if not names or not given or given == names:
        return graph
    if unknown := [name for name in given if name not in names]:
        found = f"{graph.where} has the attribute {unknown[0]}, which the model's data did not have"
        raise InputError(f"{found}, expected {_shown_names(names)}")
    if missing := [name for name in names if name not in given and not name.startswith(TAG)]:
        raise InputError(f"{graph.where} has no attribute {missing[0]}, expected {_shown_names(names)}")
    place = np.array([names.index(name) for name in given])
    entries = np.ones(len(given), np.float32), (np.arange(len(given)), place)
    moved = sp.csr_array(graph.attributes) @ sp.csr_array(entries, shape=(len(given), len(names)))
    return replace(graph, attributes=sp.csr_array(moved), attribute_names=names)


def _shown_names(names: tuple[str, ...]) -> str:
    """Return the first names of attributes."""
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} others" if len(names) > _SHOWN else "")


def joined(name: str, graphs: Iterable[RawGraph], labels: _Labels = (None, ())) -> RawGraphs:
    """Join graphs with the same attributes into a collection."""
    graphs = list(graphs)
    for number, graph in enumerate(graphs):
        if ((graph.ends < 0) | (graph.ends >= graph.nodes)).any():  # the node of another graph once they are joined
            raise InputError(f"{name}: graph {number} has edges outside of its nodes, 0 to {graph.nodes - 1}")
    sizes = np.array([graph.nodes for graph in graphs], np.int64)
    shifts = np.cumsum(sizes) - sizes
    ends = [graph.ends + shift for graph, shift in zip(graphs, shifts, strict=True)]
    shapes = {None if graph.attributes is None else graph.attributes.shape[1:] for graph in graphs}
    if len(shapes) > 1:
        raise InputError(f"{name}: nodes have different numbers of attributes, expected the same number")
    attributes = None if shapes == {None} else np.concatenate([np.asarray(graph.attributes) for graph in graphs])
    weights = None
    if any(graph.weights is not None for graph in graphs):
        # Edges of a graph without weights count 1.
        given = [np.ones(graph.ends.shape[1]) if graph.weights is None else graph.weights for graph in graphs]
        weights = np.concatenate(given)
    every = np.concatenate([np.zeros((2, 0), np.int64), *ends], axis=1)
    return _collection(name, name, sizes, every, (attributes, ()), labels, weights)


def _collection(
    name: str,
    where: str,
    sizes: npt.NDArray[np.int64],
    ends: Any,
    attributes: tuple[Any, tuple[str, ...]],
    labels: _Labels,
    weights: Any = None,
) -> RawGraphs:
    if not len(sizes):
        raise InputError(f"{where} has no graphs, expected at least one")
    if (sizes < 1).any():
        raise InputError(f"{where}: graph {int(np.flatnonzero(sizes < 1)[0])} has no nodes, expected at least one")
    nodes = int(sizes.sum())
    owner = np.repeat(np.arange(len(sizes)), sizes)
    outside = ((ends < 0) | (ends >= nodes)).any(0)
    if not outside.any() and (owner[ends[0]] != owner[ends[1]]).any():
        edge = int(np.flatnonzero(owner[ends[0]] != owner[ends[1]])[0])
        raise InputError(f"{where}: edge {edge} leads from one graph to another, expected both ends in the same graph")
    union = RawGraph(name, where, nodes, ends, weights, attributes[0], attribute_names=attributes[1])
    return RawGraphs(name, where, union, sizes, *labels)


def _columns(tags: Iterable[npt.NDArray[Any]], given: Any) -> tuple[Any, tuple[str, ...]]:
    """Return attributes, or None, and their names: one for each value of each kind of tag `(nodes,)`, then the given.

    The names tell the values: a model must not take a graph where a column stands for another one.
    """
    tags = list(tags)
    parts, names = [], []
    for kind, column in enumerate(tags):
        values, place = np.unique(column, return_inverse=True)
        entries = np.ones(len(column), np.float32), (np.arange(len(column)), place)
        parts.append(sp.csr_array(entries, shape=(len(column), len(values))))
        names += [f"{TAG}{kind if len(tags) > 1 else ''}_{value}" for value in values.tolist()]
    if given is not None:
        parts.append(sp.csr_array(given))
        names += [f"attribute_{number}" for number in range(given.shape[1])]
    return sp.csr_array(sp.hstack(parts)) if parts else None, tuple(names)


def _numbered(classes: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Number classes, which may be negative, in ascending order."""
    found, numbers = np.unique(classes, return_inverse=True)
    return numbers, tuple(map(str, found.tolist()))


def _tu_labels(path: Path, classes: npt.NDArray[np.float64]) -> _Labels:
    """Number the classes of graphs. Only NaN is no label: some collections have the classes -1 and 1."""
    known = ~np.isnan(classes)
    numbers = np.full(len(classes), UNLABELLED, np.int64)
    numbers[known], names = _numbered(_whole(path, classes[known]))
    return (numbers if names else None), names


def _numbers(path: Path, rows: int | None = None) -> npt.NDArray[np.float64]:
    """Read the numbers `(rows, columns)` of a file in a TU folder."""
    lines = [line for line in _lines(path) if line.strip()]
    if not lines or len(lines) != (rows or len(lines)):
        raise InputError(f"{path} has {len(lines):,} rows, expected {rows or 'at least one'}")
    try:
        return np.array([[float(value) for value in line.split(",")] for line in lines])
    except ValueError as error:
        raise InputError(f"{path}: {error}, expected rows of numbers of equal length") from error


def _lines(path: Path) -> list[str]:
    """Read the lines of a file, which Windows may begin with a byte order mark."""
    return read_bounded(path).decode("utf-8-sig", errors="replace").splitlines()


def _whole(path: Path, found: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return whole numbers as int64; NaN, infinity and fractions are errors."""
    wrong = found[~((np.abs(found) < 2**53) & (found == np.round(found)))]
    if len(wrong):
        raise InputError(f"{path} holds {wrong[0]}, expected whole numbers")
    return found.astype(np.int64)
