"""Encoders of nodes by name: GCN in plain torch, others and any module of PyTorch Geometric."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.messages import one_line
from nonneg.modalities.graphs._graph import Graph
from nonneg.modalities.graphs._sparse import product

_GEOMETRIC = {"graphsage": "GraphSAGE", "gin": "GIN", "gat": "GAT"}
ENCODERS = ("gcn", *_GEOMETRIC)
"""Names of encoders of graphs."""


class NodeViews(nn.Module):
    """Takes the views of a graph one by one and returns the rows of the nodes of the batch."""

    def forward(self, inputs: Mapping[str, Any]) -> Tensor:
        graph, edges, attributes = inputs["graph"], inputs["edges"], inputs["attributes"]
        nodes, degrees = inputs["nodes"].view(len(edges), -1), inputs.get("degrees", (None,) * len(edges))
        views = zip(nodes, edges, attributes, degrees, strict=True)
        return torch.cat([self.of_view(graph, *view)[rows] for rows, *view in views])

    def of_view(self, graph: Graph, weights: Tensor, attributes: Tensor, degrees: Tensor | None = None) -> Tensor:
        """Return `(nodes, width)` for edge weights `(edges,)` and factors of attributes `(attributes,)`.

        Degrees `(nodes,)` are given for a part of a graph, which does not have all edges of its nodes.
        """
        raise NotImplementedError


class GCN(NodeViews):
    """Graph convolutions after Kipf and Welling (2017): each layer averages over a node and its neighbours.

    Args:
        attributes: number of attributes of a node.
        width: number of outputs of every layer.
        layers: number of layers.
        scaled: scale the attributes of a node to a mean square of 1.
        batch_norm: batch norm over all nodes before every activation.
    """

    def __init__(self, attributes: int, width: int, layers: int, scaled: bool, batch_norm: bool = False) -> None:
        super().__init__()
        self.scaled = scaled
        widths = [attributes, *[width] * layers]
        self.weight = nn.ParameterList(nn.init.xavier_uniform_(torch.empty(a, b)) for a, b in pairwise(widths))
        self.bias = nn.ParameterList(torch.zeros(width) for _ in range(layers))
        self.norm = nn.ModuleList(nn.BatchNorm1d(width) if batch_norm else nn.Identity() for _ in range(layers))
        self.activation = nn.ModuleList(nn.PReLU() for _ in range(layers))

    def of_view(self, graph: Graph, weights: Tensor, attributes: Tensor, degrees: Tensor | None = None) -> Tensor:
        means = _normalised(graph, weights, degrees)
        first, *others = self.weight
        h = graph.times_attributes(first * attributes[:, None].to(first.dtype))
        h = h * graph.row_scales.to(h.dtype) if self.scaled else h
        edges = graph.edges_by_layer(len(self.bias))
        layers = zip(edges, (None, *others), self.bias, self.norm, self.activation, strict=True)
        for pattern, weight, bias, norm, activation in layers:
            h = h if weight is None else h @ weight
            h = activation(norm(product(pattern, means[: len(pattern.columns)], h) + bias))
        return h


@torch.no_grad()
def _normalised(graph: Graph, weights: Tensor, degrees: Tensor | None) -> Tensor:
    """Divide each weight by the roots of the degrees of both ends."""
    if weights.is_meta:
        return weights
    root = (graph.degrees_of(weights) if degrees is None else degrees).rsqrt()
    return root[graph.targets] * weights * root[graph.sources]


class NodeEncoder(NodeViews):
    """Any module of PyTorch Geometric as an encoder: from attributes `(nodes, …)` and edges `(2, edges)` to nodes.

    Args:
        module: called as `module(x, edge_index)`; with weights as `module(x, edge_index, edge_weight=…)`.
        weighted: pass the weights of the edges.
        scaled: scale the attributes of a node to a mean square of 1.
    """

    def __init__(self, module: nn.Module, weighted: bool = False, scaled: bool = True) -> None:
        super().__init__()
        self.module, self.weighted, self.scaled = module, weighted, scaled

    def of_view(self, graph: Graph, weights: Tensor, attributes: Tensor, degrees: Tensor | None = None) -> Tensor:
        dtype = next((parameter.dtype for parameter in self.module.parameters()), weights.dtype)
        x = graph.dense_attributes() * attributes
        x = (x * graph.row_scales if self.scaled else x).to(dtype)
        kept = (weights > 0) & ~graph.is_loop
        ends = torch.stack((graph.sources, graph.targets))[:, kept]
        options = {"edge_weight": weights[kept]} if self.weighted else {}
        try:
            return self.module(x, ends, **options)  # type: ignore[no-any-return]
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a module of the caller may raise anything
            found = f"attributes {tuple(x.shape)} and edge_index {tuple(ends.shape)}"
            raise InputError(
                f"encoder {type(self.module).__name__} cannot take {found}: {one_line(error)}; expected a module"
                " that is called as module(x, edge_index), like those of PyTorch Geometric; see NodeEncoder"
            ) from error


def own_encoder(module: nn.Module, scaled: bool) -> nn.Module:
    """Return a module of attributes and edges as a `NodeEncoder`; one that takes views already stays as it is."""
    takes_views = any(isinstance(part, NodeViews) for part in module.modules())
    return module if takes_views else NodeEncoder(module, scaled=scaled)


def check_encoder(name: str) -> None:
    """Check a name, and that the package it needs is there."""
    if name not in ENCODERS:
        raise InputError(f"encoder is {name!r}, expected one of {', '.join(ENCODERS)}")
    if name in _GEOMETRIC:
        import_extra("torch_geometric", name, "graphs")


def build_encoder(
    name: str, attributes: int, width: int, layers: int, scaled: bool, batch_norm: bool, joined: bool = False
) -> NodeViews:
    """Build an encoder for nodes with so many attributes; the sizes are as for `GCN`.

    `joined` lets an encoder of PyTorch Geometric return a linear map of the outputs of all layers.
    """
    if name == "gcn":
        return GCN(attributes, width, layers, scaled, batch_norm)
    models = import_extra("torch_geometric", name, "graphs").nn.models
    norm, jump = "batch_norm" if batch_norm else None, "cat" if joined else None
    module = getattr(models, _GEOMETRIC[name])(attributes, width, layers, act="prelu", norm=norm, jk=jump)
    return NodeEncoder(module, scaled=scaled)
