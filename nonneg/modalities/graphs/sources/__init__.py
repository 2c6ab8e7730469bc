"""Sources of graphs: one graph (.npz, tables) or many (TU folders, text), and objects of PyTorch Geometric."""

from nonneg.modalities.graphs.sources._many import with_attributes
from nonneg.modalities.graphs.sources._open import open_graph, open_graphs

__all__ = ["open_graph", "open_graphs", "with_attributes"]
