"""Views of whole graphs: nodes and edges dropped, attributes of nodes masked, or a connected part kept."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nonneg.modalities._random import uniform
from nonneg.modalities.graphs._blocks import Blocks
from nonneg.modalities.graphs._graph import Graph
from nonneg.modalities.graphs._sample import row_entries
from nonneg.modalities.graphs._views import Rates
from nonneg.validation import check_fields


@dataclass(frozen=True)
class GraphViewConfig:
    """How far a view may differ from a graph. The last rate of each holds for all further views."""

    drop_nodes: Rates = (0.2, 0.2)
    """Share of the nodes that the first view lacks, the second, …; one node always stays."""
    drop_edges: Rates = (0.0, 0.0)
    """Share of the edges that a view lacks."""
    mask_attributes: Rates = (0.0, 0.0)
    """Share of the nodes whose attributes a view sets to 0."""
    cut: Rates = (0.0, 0.0)
    """Share of the nodes that a view cuts off: it keeps those that are nearest to a random one."""

    def __post_init__(self) -> None:
        check_fields(self, "views.")

    def rate(self, name: str, view: int) -> float:
        """Return the rate of a view."""
        rates: tuple[float, ...] = getattr(self, name)
        return rates[min(view, len(rates) - 1)]


def draw_view(
    blocks: Blocks, config: GraphViewConfig, seed: int, epoch: Tensor | int, view: int
) -> tuple[Graph, Tensor, Tensor]:
    """Draw a view; return the graph with masked attributes, edge weights `(edges,)`, and which nodes stay `(nodes,)`.

    A number decides each node and edge; it depends on (seed, epoch, node or edge, view) alone.
    """
    graph, rate = blocks.graph, config.rate
    drawn = uniform(3, seed, epoch, blocks.nodes, 2 * view)
    largest = torch.segment_reduce(drawn[:, 0], "max", lengths=blocks.sizes)
    centre = drawn[:, 0] == largest[blocks.owner]  # one node of each graph, which always stays
    kept = centre | (drawn[:, 0] >= rate("drop_nodes", view))
    if rate("cut", view):
        kept &= _near(blocks, rate("cut", view), centre, drawn[:, 2])
    rows, columns = graph.edges.rows, graph.edges.columns.long()
    dropped = uniform(1, seed, epoch, blocks.edges, 2 * view + 1)[:, 0] < rate("drop_edges", view)
    weights = graph.weights.masked_fill((dropped | ~kept[rows] | ~kept[columns]) & ~graph.is_loop, 0)
    seen = kept & (drawn[:, 1] >= rate("mask_attributes", view))
    values = graph.tensors["values"] * seen[:, None]
    return Graph({**graph.tensors, "values": values}), weights, kept


def _near(blocks: Blocks, cut: float, centre: Tensor, order: Tensor) -> Tensor:
    """Return which nodes are nearest to the centre of their graph; `order` decides between equals."""
    edges, owner = blocks.graph.edges, blocks.owner
    kept = ((1 - cut) * blocks.sizes).ceil()
    missing, step = kept.clone(), 0
    distance = torch.full_like(order, len(order), dtype=torch.float64)  # of nodes that are not reached
    reached = centre.nonzero()[:, 0]
    while len(reached):
        distance[reached] = step
        missing -= torch.bincount(owner[reached], minlength=len(missing))
        entries, _ = row_entries(edges.starts_t, reached[missing[owner[reached]] > 0])
        found = edges.columns_t[entries].long().unique()
        reached, step = found[distance[found] == len(order)], step + 1
    # Sorted by graph, then by distance: the place within the graph decides.
    ranks = (owner * (len(order) + 1) + distance + order.double() / 2).argsort()
    place = torch.empty_like(ranks)
    place[ranks] = torch.arange(len(ranks), device=ranks.device)
    first = blocks.sizes.cumsum(0) - blocks.sizes
    return place - first[owner] < kept[owner]
