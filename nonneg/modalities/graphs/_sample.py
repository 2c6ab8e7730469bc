"""The neighbourhoods of some nodes as a graph of their own, for graphs whose layers do not fit into memory."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from nonneg.modalities.graphs._graph import Graph
from nonneg.modalities.graphs._sparse import Pattern


class Sample(NamedTuple):
    """A part of a graph.

    Attributes:
        graph: its nodes and edges.
        rows: the place in `graph` of each node that was asked for.
        edges: `(edges,)`, the numbers of its edges in the whole graph.
    """

    graph: Graph
    rows: Tensor
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
    starts, columns = whole.edges.starts.long(), whole.edges.columns.long()
    reached = frontier = nodes.unique()
    kept = [whole.loops[reached]]
    for _ in range(layers):
        edges, owner = row_entries(starts, frontier)
        numbers = drawn(edges).double().masked_fill_(columns[edges] == frontier[owner], 0)  # itself comes first
        order = (owner + numbers).argsort()
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
        first = starts[frontier + 1] - starts[frontier]
        edges = edges[place - (first.cumsum(0) - first)[owner] <= most]
        known = torch.cat((reached, columns[edges])).unique()
        frontier = known[~torch.isin(known, reached)]
        reached = known
        kept += [edges, whole.loops[frontier]]
    return _part(whole, reached, torch.cat(kept).unique(), nodes)


def row_entries(starts: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the entries of some rows of a sparse matrix, and the place in `rows` that each belongs to."""
    entries, owner, _ = joined_ranges(starts[rows], starts[rows + 1] - starts[rows])
    return entries, owner


def joined_ranges(first: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Join ranges of numbers; return them, the range of each, and by how much each range moves down."""
    owner = torch.arange(len(first), device=first.device).repeat_interleave(counts)
    shift = first - (counts.cumsum(0) - counts)
    return torch.arange(len(owner), device=first.device) + shift[owner], owner, shift


def _part(whole: Graph, nodes: Tensor, edges: Tensor, wanted: Tensor) -> Sample:
    rows, columns = whole.edges.rows[edges], whole.edges.columns[edges].long()
    size = len(nodes)
    pattern = _pattern(torch.searchsorted(nodes, rows), torch.searchsorted(nodes, columns), (size, size))
    tensors = {f"edge_{name}": part for name, part in pattern._asdict().items()}
    tensors |= {"weights": whole.weights[edges], "page_rank": whole.tensors["page_rank"][nodes]}
    values = whole.tensors["values"]
    if whole.attributes is None:
        tensors["values"] = values[nodes]
    else:
        entries, owner = row_entries(whole.attributes.starts.long(), nodes)
        found = _pattern(owner, whole.attributes.columns[entries].long(), (size, whole.width))
        tensors |= {f"attribute_{name}": part for name, part in found._asdict().items()}
        tensors["values"] = values[entries]
    return Sample(Graph(tensors), torch.searchsorted(nodes, wanted), edges)


def _pattern(rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> Pattern:
    """Return the pattern of entries that are sorted by row and column."""
    order = columns.argsort(stable=True)
    starts, starts_t = (_starts(part, size) for part, size in zip((rows, columns), shape, strict=True))
    return Pattern(starts, columns.int(), starts_t, rows[order].int(), order)


def _starts(rows: Tensor, size: int) -> Tensor:
    counts = torch.bincount(rows, minlength=size).cumsum(0)
    return torch.cat((counts.new_zeros(1), counts)).int()
