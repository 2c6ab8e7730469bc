"""Views of a graph: edges and nodes dropped and attributes masked, at random or where nodes are less central."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from nonneg.modalities._random import uniform
from nonneg.modalities.graphs._graph import Graph
from nonneg.validation import check_fields

_MOST = 0.7  # of GCA: no edge or attribute is dropped with a higher probability
# Added to the number of a view, so that the numbers for edges, nodes and neighbours differ.
_NODES, SAMPLED = 2**16, 2**17
Rates = Annotated[tuple[Annotated[float, Field(ge=0, lt=1)], ...], Field(min_length=1)]


@dataclass(frozen=True)
class ViewConfig:
    """How far a view may differ from the graph."""

    drop_edges: Rates = (0.2, 0.4)
    """Share of the edges that a view lacks: of the first view, the second, …; the last rate holds for all further
    views."""
    mask_attributes: Rates = (0.3, 0.4)
    """Share of the attributes that a view sets to 0 on all nodes."""
    weighting: Literal["uniform", "degree", "page_rank"] = "uniform"
    """Drop all edges and attributes with the same probability, or those of nodes with a low degree or PageRank more
    often (GCA)."""
    drop_nodes: Rates = (0.0, 0.0)
    """Share of the nodes whose edges a view lacks: they and their neighbours do not see each other."""

    def __post_init__(self) -> None:
        check_fields(self, "views.")


def draw_views(
    graph: Graph, config: ViewConfig, seed: int, epoch: Tensor | int, count: int, edges: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Draw views of a graph; return edge weights `(count, edges)` and factors of attributes `(count, attributes)`.

    A number decides each edge, node and attribute; it depends on (seed, epoch, edge, node or attribute, view) alone.
    With `edges`, weights of these edges only are drawn.
    """
    device, (edge_odds, attribute_odds) = graph.weights.device, _odds(graph, config.weighting)
    if edges is None:
        edges, weights, is_loop = torch.arange(len(graph.weights), device=device), graph.weights, graph.is_loop
    else:
        weights, is_loop = graph.weights[edges], graph.is_loop[edges]
        edge_odds = edge_odds[edges] if isinstance(edge_odds, Tensor) else edge_odds
    drawn_edges, drawn_attributes = _drawn(edges, graph.width, seed, epoch, count)
    views = []
    for view in range(count):
        dropped = drawn_edges[view] < _rates(config.drop_edges, view, edge_odds)
        if any(config.drop_nodes):
            ends = torch.stack((graph.targets[edges], graph.sources[edges]))
            drawn = uniform(1, seed, epoch, ends.flatten(), _NODES + view).view(2, -1)
            dropped |= (drawn < _rates(config.drop_nodes, view, 1.0)).any(0)
        masked = drawn_attributes[view] < _rates(config.mask_attributes, view, attribute_odds)
        views.append((weights.masked_fill(dropped & ~is_loop, 0), (~masked).to(weights.dtype)))
    return torch.stack([view[0] for view in views]), torch.stack([view[1] for view in views])


def expected_degrees(graph: Graph, config: ViewConfig, count: int) -> Tensor:
    """Return the mean degree of each node over all draws of each view, `(count, nodes)`."""
    return torch.stack([_expected_degrees(graph, config, view) for view in range(count)])


def _expected_degrees(graph: Graph, config: ViewConfig, view: int) -> Tensor:
    if (config, view) not in graph.expected:  # the same in every step
        edge_odds, _ = _odds(graph, config.weighting)
        both_ends = (1 - _rates(config.drop_nodes, view, 1.0)) ** 2
        kept = graph.weights * ((1 - _rates(config.drop_edges, view, edge_odds)) * both_ends)
        graph.expected[config, view] = graph.degrees_of(torch.where(graph.is_loop, graph.weights, kept))
    return graph.expected[config, view]


def _drawn(
    edges: Tensor, attributes: int, seed: int, epoch: Tensor | int, count: int
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return a number for each edge and for each attribute, by view.

    They are drawn at once: a draw takes many small operations, which a GPU would otherwise wait for.
    """
    every = torch.arange(attributes, device=edges.device)
    parts = [part for _ in range(count) for part in (edges, every)]
    # Views of edges have even numbers, those of attributes odd ones.
    numbers = torch.cat([torch.full_like(part, number) for number, part in enumerate(parts)])
    drawn = uniform(1, seed, epoch, torch.cat(parts), numbers)[:, 0].split([len(part) for part in parts])
    return drawn[::2], drawn[1::2]


def _rates(rates: tuple[float, ...], view: int, odds: Tensor | float) -> Tensor | float:
    rate = rates[min(view, len(rates) - 1)]
    return (rate * odds).clamp(max=max(_MOST, rate)) if isinstance(odds, Tensor) else rate


def _odds(graph: Graph, weighting: str) -> tuple[Tensor | float, Tensor | float]:
    """Return how many times as often as the mean each edge and each attribute is dropped."""
    if weighting == "uniform":
        return 1.0, 1.0
    if weighting not in graph.odds:  # the same in every step
        central = graph.centrality(weighting)
        ends = central.log()[graph.targets] + central.log()[graph.sources]
        used = graph.attribute_use(central)
        used = torch.where((used > 0).any(), used, 1.0)  # if all attributes of all nodes are 0
        of_attributes = _relative(used.clamp(min=used[used > 0].min()).log(), used > 0)
        graph.odds[weighting] = _relative(ends / 2, ~graph.is_loop), of_attributes
    return graph.odds[weighting]


def _relative(scores: Tensor, counted: Tensor) -> Tensor:
    """Return the distance from the largest score, in units of its mean; 1 if all scores are equal."""
    distance = scores[counted].max() - scores
    mean = distance[counted].mean()
    return torch.where(mean > 0, distance / mean.clamp(min=1e-12), 1.0)
