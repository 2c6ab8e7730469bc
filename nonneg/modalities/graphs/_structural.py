"""What the edges alone say about nodes: attributes for nodes that have none, and PageRank."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

_DAMPING, _ROUNDS = 0.85, 50
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
    triangles = np.asarray((links @ links).multiply(links).sum(1)).ravel() / 2
    linked = triangles / np.maximum(degree * (degree - 1) / 2, 1)
    rows = np.repeat(np.arange(len(degree)), np.diff(links.indptr))
    smaller = np.bincount(rows, degree[links.indices] < degree[rows], len(degree)) / at_least_one
    binned = [np.eye(_BINS)[np.minimum(np.log2(1 + values).astype(int), _BINS - 1)] for values in counts]
    return np.concatenate((*binned, linked[:, None], smaller[:, None]), axis=1).astype(np.float32)


def core_numbers(links: sp.csr_array) -> npt.NDArray[np.int64]:
    """Return the largest k for which a node belongs to the k-core: the subgraph where all nodes have degree k or more.

    Example:
        >>> core_numbers(sp.csr_array(np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]])))
        array([2, 2, 2, 1])
    """
    degree = np.diff(links.indptr).astype(np.int64)
    core, remaining, k = np.zeros(len(degree), np.int64), np.ones(len(degree), bool), 0
    while remaining.any():
        leaving = remaining & (degree <= k)
        if not leaving.any():
            k += 1
            continue
        core[leaving], remaining = k, remaining & ~leaving
        degree -= np.asarray(links[:, np.flatnonzero(leaving)].sum(1), np.int64).ravel()
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
