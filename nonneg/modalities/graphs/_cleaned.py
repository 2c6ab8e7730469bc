"""`cleaned`: a graph as it was given, checked, repaired and described."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from nonneg.errors import InputError
from nonneg.modalities.graphs._graph import Graph
from nonneg.modalities.graphs._raw import RawGraph
from nonneg.modalities.graphs._sparse import pattern_of
from nonneg.modalities.graphs._structural import page_rank, structural_attributes

_LARGEST = float(np.finfo(np.float32).max)  # weight and attribute
_SPARSE = 0.2  # attributes with a smaller share of non-zeros are kept as a sparse matrix


def cleaned(raw: RawGraph, undirected: bool) -> tuple[Graph, tuple[str, ...]]:
    """Check a graph, bring it into one form and return it with what is worth knowing about it.

    Repeated edges are merged and their weights, if they have any, added; edges from a node to itself are left out
    (every node is its own neighbour anyway); and with `undirected` every edge leads both ways, with the larger weight
    if they differ.
    """
    _check_size(raw)
    adjacency, notes = _adjacency(raw, undirected)
    if raw.attributes is None:
        given = structural_attributes(adjacency)
        notes.append(f"no attributes: {given.shape[1]} structural ones are used (degrees, triangles, cores)")
    else:
        given = _checked_attributes(raw)
    names = ("starts", "columns", "starts_t", "columns_t", "order_t")
    rank = page_rank(adjacency)
    whole = sp.csr_array(adjacency + sp.eye_array(raw.nodes, format="csr", dtype=np.float32))
    whole.sort_indices()
    tensors = {f"edge_{name}": part for name, part in zip(names, pattern_of(whole), strict=True)}
    tensors["weights"] = torch.from_numpy(whole.data.astype(np.float32))
    tensors["page_rank"] = torch.from_numpy(rank)
    if sp.issparse(given):
        tensors |= {f"attribute_{name}": part for name, part in zip(names, pattern_of(given), strict=True)}
        tensors["values"] = torch.from_numpy(given.data)
    else:
        tensors["values"] = torch.from_numpy(given)
    return Graph(tensors), tuple(notes)


def _check_size(raw: RawGraph) -> None:
    if raw.nodes < 2:
        raise InputError(f"{raw.where} has {raw.nodes} node{'s' * (raw.nodes != 1)}, expected at least 2")
    if not raw.ends.shape[1]:
        raise InputError(f"{raw.where} has {raw.nodes:,} nodes and no edges, expected at least one edge")
    if raw.labels is not None and len(raw.labels) != raw.nodes:
        raise InputError(f"{raw.where}: labels has {len(raw.labels):,} entries, expected {raw.nodes:,}, one per node")
    outside = (raw.ends < 0) | (raw.ends >= raw.nodes)
    if outside.any():
        edge = int(np.flatnonzero(outside.any(0))[0])
        raise InputError(
            f"{raw.where}: edge {edge} leads from node {raw.ends[0, edge]} to node {raw.ends[1, edge]}, expected nodes"
            f" from 0 to {raw.nodes - 1}"
        )
    if raw.weights is not None:
        weights = np.asarray(raw.weights)
        if weights.shape != (raw.ends.shape[1],) or weights.dtype.kind not in "fiub":
            raise InputError(f"{raw.where}: weights are {weights.dtype} {weights.shape}, expected one number per edge")
        with np.errstate(over="ignore"):  # what becomes infinite is an error
            single = weights.astype(np.float32)
        wrong = np.flatnonzero(~np.isfinite(single) | (single < 0))
        if len(wrong):
            found = f"edge {wrong[0]} has the weight {weights[wrong[0]]}"
            raise InputError(f"{raw.where}: {found}, expected a number from 0 to {_LARGEST:.2g}")


def _adjacency(raw: RawGraph, undirected: bool) -> tuple[sp.csr_array, list[str]]:
    """Return entries (target, source) without loops, and notes."""
    source, target = raw.ends
    weights = np.ones(len(source), np.float32) if raw.weights is None else np.asarray(raw.weights, np.float32)
    kept = (source != target) & (weights > 0)
    loops, weightless = int((source == target).sum()), int(((source != target) & (weights == 0)).sum())
    adjacency = sp.csr_array((weights[kept], (target[kept], source[kept])), shape=(raw.nodes, raw.nodes))
    adjacency.sum_duplicates()  # sorts them, too
    if not np.isfinite(adjacency.data).all():
        raise InputError(f"{raw.where}: weights of repeated edges add up to more than {_LARGEST:.2g}, expected less")
    repeated = int(kept.sum()) - adjacency.nnz
    if raw.weights is None:
        adjacency.data = np.ones_like(adjacency.data)
    if not adjacency.nnz:
        raise InputError(f"{raw.where} has no edge between two different nodes, expected at least one")
    difference = adjacency - adjacency.T
    is_directed = bool(np.abs(difference.data).max(initial=0) > 0)
    arrows = adjacency.nnz
    if undirected and is_directed:
        adjacency = sp.csr_array(adjacency.maximum(adjacency.T.tocsr()))
        adjacency.sort_indices()
    neighbours = np.diff(adjacency.indptr) + np.bincount(adjacency.indices, minlength=raw.nodes)
    isolated = int((neighbours == 0).sum())
    is_weighted = bool((adjacency.data != 1).any())
    kind = f"{arrows:,} directed edges" if is_directed else f"{arrows // 2:,} undirected edges"
    notes = [kind]
    if is_directed:
        notes[0] += ", used in both directions" if undirected else ", used from source to target"
    if is_weighted:
        notes.append("edges have weights, which the encoder gcn uses; graphsage, gin and gat do not")
    for count, one, several in (
        (repeated, "repeated edge was merged", "repeated edges were merged"),
        (loops, "edge from a node to itself was left out", "edges from a node to itself were left out"),
        (weightless, "edge of weight 0 was left out", "edges of weight 0 were left out"),
        (isolated, "node has no neighbours", "nodes have no neighbours"),
    ):
        if count:
            notes.append(f"{count:,} {one if count == 1 else several}")
    return adjacency, notes


def _checked_attributes(raw: RawGraph) -> Any:
    """Return the attributes in float32, as an array, or as a CSR matrix if few are not 0."""
    given = raw.attributes if sp.issparse(raw.attributes) else np.asarray(raw.attributes)
    shape = given.shape
    if given.dtype.kind not in "fiub" or len(shape) != 2 or shape[0] != raw.nodes or not shape[1]:
        raise InputError(
            f"{raw.where}: attributes are {given.dtype} {shape}, expected numbers ({raw.nodes}, 1 or more)"
        )
    if raw.attribute_names and len(raw.attribute_names) != shape[1]:
        found = f"attributes have {len(raw.attribute_names):,} names"
        raise InputError(f"{raw.where}: {found}, expected {shape[1]:,}, one per attribute")
    with np.errstate(over="ignore"):  # what becomes infinite is an error below
        matrix = sp.csr_array(given, dtype=np.float32, copy=True)  # the caller's own stays as it is
    matrix.sum_duplicates()
    matrix.eliminate_zeros()  # NaN is not zero
    if not np.isfinite(matrix.data).all():
        entry = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
        node = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        column = int(matrix.indices[entry])
        names = [str(node), str(column)]
        if raw.ids:
            names[0] = raw.ids[node]
        if raw.attribute_names:
            names[1] = raw.attribute_names[column]
        found = f"attribute {names[1]} of node {names[0]} is {matrix.data[entry]}"
        raise InputError(f"{raw.where}: {found}, expected a finite number up to {_LARGEST:.2g}")
    return matrix if matrix.nnz < _SPARSE * shape[0] * shape[1] else np.ascontiguousarray(matrix.toarray())
