"""The neighbourhoods of some nodes as a graph of their own, for graphs whose layers do not fit into memory."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from nonneg.modalities.graphs._graph import Graph
from nonneg.modalities.graphs._sparse import Pattern


class Part(Graph):
    """Some nodes of a graph and what they hear from: these nodes first, then those that are one edge farther, ….

    Where a node lacks neighbours, the weights of its other edges are larger, so that they add up to what they do in the
    whole graph.

    Attributes:
        reach: the number of nodes up to 0, 1, … edges away.
    """

    reach: tuple[int, ...]

    def edges_by_layer(self, layers: int) -> Sequence[Pattern]:
        """Return the edges of each layer; every layer has one edge less ahead of it, and needs fewer nodes."""
        rows, columns, ends = self.targets, self.sources, [*reversed(self.reach)][: layers + 1]
        counts = [int(self.edges.starts[size]) for size in ends[1:]]
        sizes = zip(counts, ends[1:], ends, strict=False)
        return [_pattern(rows[:count], columns[:count], (to, since)) for count, to, since in sizes]


class Sample(NamedTuple):
    """A part of a graph.

    Attributes:
        graph: its nodes and edges.
        rows: the place in `graph` of each node that was asked for.
        nodes, edges: `(nodes,)` and `(edges,)`, their numbers in the whole graph.
    """

    graph: Part
    rows: Tensor
    nodes: Tensor
    edges: Tensor


def neighbourhoods(whole: Graph, nodes: Tensor, layers: int, most: int, drawn: Callable[[Tensor], Tensor]) -> Sample:
    """Return what some nodes hear from over a number of layers, at most so many neighbours of each node per layer.

    Args:
        whole: the graph.
        nodes: `(nodes,)`, the nodes of interest.
        layers: how far away neighbours may be.
        most: neighbours of a node that are kept, chosen at random.
        drawn: from edges `(edges,)` to random numbers between 0 and 1, `(edges,)`.
    """
    starts, columns = whole.edges.starts, whole.sources
    hops = [nodes.unique()]
    reached, kept = hops[0], [whole.loops[hops[0]]]
    for _ in range(layers):
        frontier = hops[-1]
        edges, owner = row_entries(starts, frontier)
        numbers = drawn(edges).double().masked_fill_(columns[edges] == frontier[owner], 0)  # itself comes first
        order = (owner + numbers).argsort()
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
        counts = starts[frontier + 1] - starts[frontier]
        edges = edges[place - (counts.cumsum(0) - counts)[owner] <= most]
        known = torch.cat((reached, columns[edges])).unique()
        hops.append(known[~torch.isin(known, reached)])
        reached = known
        kept += [edges, whole.loops[hops[-1]]]
    return _part(whole, hops, torch.cat(kept).unique(), nodes)


def row_entries(starts: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the entries of some rows of a sparse matrix, and the place in `rows` that each belongs to."""
    entries, owner, _ = joined_ranges(starts[rows], starts[rows + 1] - starts[rows])
    return entries, owner


def joined_ranges(first: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Join ranges of numbers; return them, the range of each, and by how much each range moves down."""
    owner = torch.arange(len(first), device=first.device).repeat_interleave(counts)
    shift = first - (counts.cumsum(0) - counts)
    return torch.arange(len(owner), device=first.device) + shift[owner], owner, shift


def _part(whole: Graph, hops: list[Tensor], edges: Tensor, wanted: Tensor) -> Sample:
    nodes = torch.cat(hops)
    size, (known, place) = len(nodes), nodes.sort()

    def numbers(given: Tensor) -> Tensor:
        return place[torch.searchsorted(known, given)]

    rows, columns = numbers(whole.targets[edges]), numbers(whole.sources[edges])
    order = (rows * size + columns).argsort()
    rows, columns, edges = rows[order], columns[order], edges[order]
    pattern = _pattern(rows, columns, (size, size))
    tensors = {f"edge_{name}": part for name, part in pattern._asdict().items()}
    weights, others = whole.weights[edges], rows != columns
    sums = weights.new_zeros(size).index_add_(0, rows, weights * others)
    factors = (whole.degrees[nodes] - 1) / torch.where(sums > 0, sums, 1.0)
    weights = torch.where(others, weights * factors[rows], weights)
    tensors |= {"weights": weights, "page_rank": whole.tensors["page_rank"][nodes]}
    values = whole.tensors["values"]
    if whole.attributes is None:
        tensors["values"] = values[nodes]
    else:
        entries, owner = row_entries(whole.attributes.starts, nodes)
        found = _pattern(owner, whole.attributes.columns[entries].long(), (size, whole.width))
        tensors |= {f"attribute_{name}": part for name, part in found._asdict().items()}
        tensors["values"] = values[entries]
    part = Part(tensors)
    part.reach = tuple(accumulate(map(len, hops)))
    return Sample(part, numbers(wanted), nodes, edges)


def _pattern(rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> Pattern:
    """Return the pattern of entries that are sorted by row and column."""
    order = columns.argsort(stable=True)
    starts, starts_t = (_starts(part, size) for part, size in zip((rows, columns), shape, strict=True))
    return Pattern(starts, columns.int(), starts_t, rows[order].int(), order)


def _starts(rows: Tensor, size: int) -> Tensor:
    counts = torch.bincount(rows, minlength=size).cumsum(0)
    return torch.cat((counts.new_zeros(1), counts)).int()
