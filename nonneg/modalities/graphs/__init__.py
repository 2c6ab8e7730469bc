"""Graphs: the nodes of one graph as samples, or many whole graphs; their sources, views and encoders."""

from nonneg.modalities.graphs._block_views import GraphViewConfig
from nonneg.modalities.graphs._encoders import ENCODERS, GCN, NodeEncoder
from nonneg.modalities.graphs._graph import Graph, GraphNodes
from nonneg.modalities.graphs._modality import Nodes
from nonneg.modalities.graphs._raw import RawGraph, RawGraphs
from nonneg.modalities.graphs._views import ViewConfig
from nonneg.modalities.graphs._whole import Graphs
from nonneg.modalities.graphs.sources import open_graph, open_graphs

__all__ = [
    "ENCODERS",
    "GCN",
    "Graph",
    "GraphNodes",
    "GraphViewConfig",
    "Graphs",
    "NodeEncoder",
    "Nodes",
    "RawGraph",
    "RawGraphs",
    "ViewConfig",
    "open_graph",
    "open_graphs",
]
