"""Sources of graphs: .npz files of plain arrays, edge lists with tables of attributes, objects of PyTorch Geometric."""

from nonneg.modalities.graphs.sources._open import open_graph

__all__ = ["open_graph"]
