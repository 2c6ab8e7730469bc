"""Many graphs: a folder of the TU collection, the text format of pytorch_DGCNN, datasets of PyTorch Geometric."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.modalities.graphs._raw import RawGraph, RawGraphs
from nonneg.modalities.graphs.sources._geometric import from_geometric

_INDICATOR = "_graph_indicator.txt"


def tu_prefix(folder: Path) -> Path | None:
    """Return the common beginning of the files of a TU folder, such as MUTAG/MUTAG, or None."""
    found = sorted(folder.glob(f"*{_INDICATOR}"))
    return folder / found[0].name.removesuffix(_INDICATOR) if found else None


def from_tu(prefix: Path) -> RawGraphs:
    """Read NAME_A.txt, NAME_graph_indicator.txt and, if present, the labels of graphs and nodes and the attributes."""
    where = str(prefix.parent)
    found = _numbers(prefix, "graph_indicator", where)
    owner = found.reshape(len(found), -1)[:, 0].astype(np.int64) - 1 if found.size else np.zeros(0, np.int64)
    if not len(owner) or (np.diff(owner) < 0).any() or owner[0] < 0 or owner[-1] >= len(owner):
        raise InputError(
            f"{where}: {prefix.name}{_INDICATOR} is not in ascending order from 1, expected nodes by graph"
        )
    sizes = np.bincount(owner)
    ends = _numbers(prefix, "A", where).astype(np.int64).T - 1
    if len(ends) != 2:
        raise InputError(f"{where}: {prefix.name}_A.txt has {len(ends)} columns, expected 2, the ends of an edge")
    tags = _optional(prefix, "node_labels", where, len(owner))
    given = _optional(prefix, "node_attributes", where, len(owner))
    parts = [*(_one_hot(column) for column in (() if tags is None else tags.T)), *([] if given is None else [given])]
    labels = _optional(prefix, "graph_labels", where, len(sizes))
    return _collection(prefix.name, where, sizes, ends, parts, None if labels is None else labels[:, 0])


def from_text(path: Path) -> RawGraphs:
    """Read the text format of pytorch_DGCNN: a graph is a line `nodes label`, then `tag neighbours …` for each node."""
    where = str(path)
    with read_errors_as_input_errors(path):
        lines = iter(path.read_text(encoding="utf-8", errors="replace").splitlines())
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
                if not all(0 <= other < nodes for other in neighbours):
                    raise InputError(
                        f"{where}: line {number + 1} names a neighbour of node {node} outside 0 to {nodes - 1}"
                    )
                tags.append(int(tag))
                ends.extend((first + node, first + other) for other in neighbours)
                attributes.append([float(value) for value in others[int(degree) :]])
            sizes.append(nodes)
            labels.append(label)
    except InputError:  # a ValueError, too
        raise
    except (ValueError, StopIteration) as error:
        found = "ends" if isinstance(error, StopIteration) else "is not as expected"
        expected = "the number of graphs, then `nodes label` and `tag neighbours …` lines, as in pytorch_DGCNN"
        raise InputError(f"{where}: line {number + 1} {found}, expected {expected}") from error
    parts = [_one_hot(np.array(tags))] if len(set(tags)) > 1 else []
    if attributes and len(attributes[0]):
        if len({len(row) for row in attributes}) > 1:
            raise InputError(f"{where}: nodes have different numbers of attributes, expected the same number")
        parts.append(np.array(attributes))
    edges = np.array(ends, np.int64).reshape(-1, 2).T
    return _collection(path.stem, where, np.array(sizes, np.int64), edges, parts, np.array(labels))


def from_geometric_graphs(data: Any) -> RawGraphs:
    """Read a dataset of PyTorch Geometric; `y` of a graph is its label."""
    if hasattr(data, "edge_index"):
        raise InputError("data is one graph, expected several; the recipe graph trains on the nodes of one")
    labels = [getattr(each, "y", None) for each in data]
    for y in labels:
        if y is not None and (y.numel() != 1 or (y.is_floating_point() and not float(y).is_integer())):
            raise InputError(f"data: y of a graph is {y.tolist()}, expected one whole number, its class")
    parts: list[RawGraph] = []
    for each in data:
        bare = each.clone()
        bare.y = None
        parts.append(from_geometric(bare))
    given = [int(label.flatten()[0]) for label in labels if label is not None]
    known = np.array(given) if len(given) == len(parts) else None
    return joined(str(getattr(data, "name", "") or "data").lower(), parts, known)


def joined(name: str, graphs: Iterable[RawGraph], labels: Any = None) -> RawGraphs:
    """Join graphs with the same attributes into a collection."""
    graphs = list(graphs)
    sizes = np.array([graph.nodes for graph in graphs], np.int64)
    shifts = np.cumsum(sizes) - sizes
    ends = [graph.ends + shift for graph, shift in zip(graphs, shifts, strict=True)]
    given = [graph.attributes for graph in graphs]
    parts = []
    if all(each is not None for each in given):
        if len({each.shape[1] for each in given}) > 1:
            raise InputError(f"{name}: nodes have different numbers of attributes, expected the same number")
        parts = [np.concatenate([np.asarray(each) for each in given])]
    weights = None
    if any(graph.weights is not None for graph in graphs):
        # Edges of a graph without weights count 1.
        given = [np.ones(graph.ends.shape[1]) if graph.weights is None else graph.weights for graph in graphs]
        weights = np.concatenate(given)
    every = np.concatenate([np.zeros((2, 0), np.int64), *ends], axis=1)
    return _collection(name, name, sizes, every, parts, labels, weights)


def _collection(
    name: str, where: str, sizes: npt.NDArray[np.int64], ends: Any, parts: list[Any], labels: Any, weights: Any = None
) -> RawGraphs:
    if len(sizes) < 2:
        raise InputError(f"{where} has {len(sizes)} graph{'s' * (len(sizes) != 1)}, expected at least 2")
    if (sizes < 1).any():
        raise InputError(f"{where}: graph {int(np.flatnonzero(sizes < 1)[0])} has no nodes, expected at least one")
    nodes = int(sizes.sum())
    owner = np.repeat(np.arange(len(sizes)), sizes)
    outside = ((ends < 0) | (ends >= nodes)).any(0)
    if not outside.any() and (owner[ends[0]] != owner[ends[1]]).any():
        edge = int(np.flatnonzero(owner[ends[0]] != owner[ends[1]])[0])
        raise InputError(f"{where}: edge {edge} leads from one graph to another, expected both ends in the same graph")
    attributes = sp.csr_array(sp.hstack([sp.csr_array(part) for part in parts])) if parts else None
    names: tuple[str, ...] = ()
    if labels is not None:
        found, labels = np.unique(labels, return_inverse=True)
        names = tuple(str(int(value)) if float(value).is_integer() else repr(value) for value in found.tolist())
    union = RawGraph(name, where, nodes, ends, weights, attributes)
    return RawGraphs(name, where, union, sizes, labels, names)


def _one_hot(tags: npt.NDArray[Any]) -> sp.csr_array:
    known, place = np.unique(tags, return_inverse=True)
    return sp.csr_array((np.ones(len(tags), np.float32), (np.arange(len(tags)), place)), (len(tags), len(known)))


def _numbers(prefix: Path, part: str, where: str) -> npt.NDArray[np.float64]:
    path = prefix.with_name(f"{prefix.name}_{part}.txt")
    with read_errors_as_input_errors(path):
        if not path.exists():
            raise InputError(f"{where} has no {path.name}, expected the files of a TU data set")
        text = path.read_text(encoding="utf-8", errors="replace")
    try:
        return np.array([[float(value) for value in line.split(",")] for line in text.splitlines() if line.strip()])
    except ValueError as error:
        raise InputError(f"{path}: {error}, expected rows of numbers of equal length") from error


def _optional(prefix: Path, part: str, where: str, rows: int) -> npt.NDArray[np.float64] | None:
    path = prefix.with_name(f"{prefix.name}_{part}.txt")
    if not path.exists():
        return None
    found = _numbers(prefix, part, where)
    if len(found) != rows:
        raise InputError(f"{path} has {len(found):,} rows, expected {rows:,}")
    return found
