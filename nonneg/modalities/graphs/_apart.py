"""The attributes that set the nodes of a feature apart from all nodes."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nonneg.codes import active
from nonneg.modalities.graphs._graph import Graph

_MOST, _LEAST = 8, 0.02  # attributes of a feature, and the least difference of the two shares
_ENTRIES = 2**24  # of features x attributes that are counted at a time


def attributes_apart(
    graph: Graph, nodes: npt.NDArray[np.int64], codes: Any, names: tuple[str, ...]
) -> list[list[tuple[str, float, float]]]:
    """Return for each feature the attributes that are above their mean on more of its nodes than of all, best first.

    Each has a name, the share of the nodes on which the feature is active, and the share of all nodes. Features that
    are active on more than half of the nodes have none: hardly anything sets these apart.

    Args:
        graph: the whole graph.
        nodes: `(samples,)`, the nodes that the codes describe.
        codes: `(samples, features)`, NumPy or SciPy sparse.
        names: of the attributes.
    """
    high = _above_mean(graph)[nodes]
    overall = np.asarray(high.mean(axis=0)).ravel()
    is_active = active(codes)
    is_rare = 2 * np.asarray(is_active.sum(axis=0)).ravel() <= len(nodes)
    is_active = is_active.multiply(is_rare) if sp.issparse(is_active) else is_active & is_rare
    is_active = sp.csr_array(is_active.T, dtype=np.float32)
    found = []
    at_once = max(1, _ENTRIES // graph.width)
    for first in range(0, is_active.shape[0], at_once):
        some = is_active[first : first + at_once]
        counts = np.asarray((some @ high).todense())
        shares = counts / np.maximum(1, np.asarray(some.sum(axis=1)))[:, None]
        apart = shares - overall
        best = np.argsort(-apart, axis=1, kind="stable")[:, :_MOST]
        for feature, columns in enumerate(best):
            kept = [column for column in columns if apart[feature, column] >= _LEAST]
            found.append([(names[j], round(float(shares[feature, j]), 4), round(float(overall[j]), 4)) for j in kept])
    return found


def _above_mean(graph: Graph) -> sp.csr_array:
    """Return `(nodes, attributes)`, 1 where an attribute is above its mean over all nodes."""
    values = graph.tensors["values"].numpy()
    if graph.attributes is None:
        return sp.csr_array((values > values.mean(axis=0)).astype(np.float32))
    columns, starts = graph.attributes.columns.numpy(), graph.attributes.starts.numpy()
    mean = np.bincount(columns, values, graph.width) / graph.nodes
    # Entries of 0 are above a mean that is negative; attributes of many zeros hardly ever have one.
    is_above = (values > mean[columns]).astype(np.float32)
    # A copy: otherwise the pattern of the graph's own attributes would lose entries, too.
    matrix = sp.csr_array((is_above, columns, starts), shape=graph.attributes.shape, copy=True)
    matrix.eliminate_zeros()
    return matrix
