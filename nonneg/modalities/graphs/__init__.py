"""Graphs: the nodes of a graph as samples, their sources, views and encoders."""

from nonneg.modalities.graphs._encoders import ENCODERS, GCN, NodeEncoder
from nonneg.modalities.graphs._graph import Graph, GraphNodes, RawGraph
from nonneg.modalities.graphs._modality import Nodes
from nonneg.modalities.graphs._views import ViewConfig
from nonneg.modalities.graphs.sources import open_graph

__all__ = ["ENCODERS", "GCN", "Graph", "GraphNodes", "NodeEncoder", "Nodes", "RawGraph", "ViewConfig", "open_graph"]
