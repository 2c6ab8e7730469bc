"""What the edges alone say about nodes: attributes for nodes that have none, and PageRank."""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

_DAMPING, _ROUNDS = 0.85, 50
_ENTRIES = 2**24  # of a product that are computed at a time
_BINS = 16  # of a logarithmic scale to the base 2: counts of up to 2^15 and more
STRUCTURAL_NAMES = (
    *(f"{kind}_{2**part - 1}" for kind in ("sources", "targets", "neighbourhood", "core") for part in range(_BINS)),
    "triangles",
    "centre",
)
"""Names of the structural attributes; a number is the smallest count of a bin."""


def structural_attributes(adjacency: sp.csr_array) -> npt.NDArray[np.float32]:
    """Return `(nodes, 66)`: binned in-degree, out-degree, neighbours' degree and core number, and two shares.

    Every column has the same meaning in all graphs, so that a trained model takes other graphs. The shares are those of
    pairs of neighbours that are linked, and of neighbours with a smaller degree.
    """
    links = sp.csr_array((adjacency + adjacency.T) != 0, dtype=np.float64)
    degree = np.asarray(links.sum(1)).ravel()
    at_least_one = np.maximum(degree, 1)
    counts = (
        np.diff(adjacency.indptr),
        np.bincount(adjacency.indices, minlength=len(degree)),
        links @ degree / at_least_one,
        core_numbers(links),
    )
    linked = _triangles(links) / np.maximum(degree * (degree - 1) / 2, 1)
    rows = np.repeat(np.arange(len(degree)), np.diff(links.indptr))
    smaller = np.bincount(rows, degree[links.indices] < degree[rows], len(degree)) / at_least_one
    binned = [np.eye(_BINS)[np.minimum(np.log2(1 + values).astype(int), _BINS - 1)] for values in counts]
    return np.concatenate((*binned, linked[:, None], smaller[:, None]), axis=1).astype(np.float32)


def _triangles(links: sp.csr_array) -> npt.NDArray[np.float64]:
    """Return the number of triangles that each node belongs to.

    Edges lead to the end with more neighbours. Then at most sqrt(2 edges) of them leave a node, even a hub.
    """
    degree = np.diff(links.indptr)
    rank = np.argsort(np.argsort(degree, kind="stable"))
    rows = np.repeat(np.arange(len(degree)), degree)
    kept = rank[rows] < rank[links.indices]
    edges = sp.csr_array((np.ones(kept.sum()), (rows[kept], links.indices[kept])), links.shape)
    # A triangle is counted at the edge from its first to its third node, and at that from its second to its third.
    from_first, from_second = _product_at(edges, edges), _product_at(sp.csr_array(edges.T), edges)
    sums = [np.asarray(each).ravel() for each in (from_first.sum(1), from_first.sum(0), from_second.sum(1))]
    counts: npt.NDArray[np.float64] = np.sum(sums, axis=0)
    return counts


def _product_at(left: sp.csr_array, edges: sp.csr_array) -> sp.csr_array:
    """Return `left @ edges` where `edges` has entries, computed in blocks of rows."""
    terms = np.cumsum(left @ np.diff(edges.indptr))
    bounds = (0, *(1 + np.flatnonzero(np.diff(terms // _ENTRIES))), len(terms))
    return sp.csr_array(sp.vstack([(left[a:b] @ edges).multiply(edges[a:b]) for a, b in pairwise(bounds)]))


def core_numbers(links: sp.csr_array) -> npt.NDArray[np.int64]:
    """Return the largest k for which a node belongs to the k-core: the subgraph where all nodes have degree k or more.

    Example:
        >>> core_numbers(sp.csr_array(np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]])))
        array([2, 2, 2, 1])
    """
    starts = links.indptr.astype(np.int64)
    degree = np.diff(starts)
    core, remaining = np.full(len(degree), -1, np.int64), np.arange(len(degree))
    while len(remaining):
        k = degree[remaining].min()
        leaving = remaining[degree[remaining] == k]
        while len(leaving):
            core[leaving] = k
            counts = starts[leaving + 1] - starts[leaving]
            shift = starts[leaving] - (np.cumsum(counts) - counts)
            near = links.indices[np.arange(counts.sum()) + np.repeat(shift, counts)]
            near, times = np.unique(near[core[near] < 0], return_counts=True)
            degree[near] -= times
            leaving = near[degree[near] <= k]
        remaining = remaining[core[remaining] < 0]
    return core


def page_rank(adjacency: Any) -> npt.NDArray[np.float32]:
    """Return the PageRank of each node `(nodes,)` for entries (target, source), by power iteration."""
    nodes = adjacency.shape[0]
    leaving = np.asarray(adjacency.sum(0)).ravel()
    share = np.divide(1.0, leaving, out=np.zeros(nodes), where=leaving > 0)
    rank = np.full(nodes, 1 / nodes)
    for _ in range(_ROUNDS):
        lost = rank[leaving == 0].sum()
        rank = (1 - _DAMPING) / nodes + _DAMPING * (adjacency @ (rank * share) + lost / nodes)
    return rank.astype(np.float32)
