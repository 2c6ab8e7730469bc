"""Many graphs as one: their nodes are numbered one after the other, and no edge leads from one graph to another."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nonneg.modalities.graphs._graph import Graph
from nonneg.modalities.graphs._sample import joined_ranges, row_entries

BLOCKS = "blocks"
"""Name of the tensor `(graphs + 1,)` int64 of a `Graph` that holds the first node of each of its graphs."""


class ManyGraphs(Graph):
    """Many graphs as one, with the tensor `BLOCKS`; some of them can be encoded without the others."""

    encoded_whole = False


class Blocks(NamedTuple):
    """Some of many graphs, as one graph.

    Attributes:
        graph: their nodes and edges, with dense attributes.
        sizes: `(graphs,)`, nodes of each.
        owner: `(nodes,)`, the graph of each node.
        nodes, edges: `(nodes,)` and `(edges,)`, their numbers among those of all graphs.
    """

    graph: Graph
    sizes: Tensor
    owner: Tensor
    nodes: Tensor
    edges: Tensor


class WholeGraphs:
    """The samples of a collection: its graphs.

    Args:
        graph: all of them as one graph.
        digest, attribute_names: as in `GraphNodes`.
    """

    def __init__(self, graph: ManyGraphs, digest: str = "", attribute_names: tuple[str, ...] = ()) -> None:
        self.graph, self.digest, self.attribute_names = graph, digest, attribute_names

    def __len__(self) -> int:
        return len(self.graph.tensors[BLOCKS]) - 1

    def __getitem__(self, rows: Any) -> dict[str, Any]:
        return {"graphs": np.arange(len(self))[rows], "graph": self.graph}


def chosen_blocks(whole: ManyGraphs, chosen: Tensor) -> Blocks:
    """Return some of the graphs `(graphs,)`; one that is chosen twice is there twice.

    Adjacencies of separate graphs are blocks on a diagonal, so their entries lie together, by rows and by columns.
    """
    starts = whole.tensors[BLOCKS]
    first, sizes = starts[chosen], starts[chosen + 1] - starts[chosen]
    nodes, owner, node_shift = joined_ranges(first, sizes)
    pattern = whole.edges
    first_edge, after = pattern.starts[first].long(), pattern.starts[first + sizes].long()
    edges, edge_owner, edge_shift = joined_ranges(first_edge, after - first_edge)
    total = pattern.starts.new_tensor([len(edges)])
    tensors = {
        "edge_starts": torch.cat(((pattern.starts[nodes] - edge_shift[owner]).int(), total)),
        "edge_columns": (pattern.columns[edges] - node_shift[edge_owner]).int(),
        "edge_starts_t": torch.cat(((pattern.starts_t[nodes] - edge_shift[owner]).int(), total)),
        "edge_columns_t": (pattern.columns_t[edges] - node_shift[edge_owner]).int(),
        "edge_order_t": pattern.order_t[edges] - edge_shift[edge_owner],
        "weights": whole.weights[edges],
        "values": _dense_rows(whole, nodes),
    }
    return Blocks(Graph(tensors), sizes, owner, nodes, edges)


def _dense_rows(whole: Graph, nodes: Tensor) -> Tensor:
    values, pattern = whole.tensors["values"], whole.attributes
    if pattern is None:
        return values[nodes]
    entries, owner = row_entries(pattern.starts.long(), nodes)
    dense = values.new_zeros(len(nodes), whole.width)
    dense[owner, pattern.columns[entries].long()] = values[entries]
    return dense
