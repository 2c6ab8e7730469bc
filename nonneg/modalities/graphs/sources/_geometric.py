"""Graphs as objects of PyTorch Geometric, recognised by their classes, so that the package is not imported."""

from typing import Any

import numpy as np
import torch

from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.modalities.graphs._raw import RawGraph, labels_of

_MASKS = ("train_mask", "val_mask", "test_mask")


def is_geometric(data: Any) -> bool:
    """Whether this is a `Data` object or a dataset of PyTorch Geometric."""
    return bool(_kinds(data))


def is_dataset(data: Any) -> bool:
    """Whether this is a dataset of PyTorch Geometric and not one graph.

    Its attributes do not tell: a dataset in memory has those of its graphs, joined.
    """
    return "Dataset" in _kinds(data)


def _kinds(data: Any) -> set[str]:
    """Return the names of an object's classes that come from `torch_geometric.data`."""
    return {kind.__name__ for kind in type(data).__mro__ if kind.__module__.startswith("torch_geometric.data")}


def name_of(data: Any) -> str:
    """Return what an object of PyTorch Geometric is called."""
    name = getattr(data, "name", None)
    return name.lower() if name and isinstance(name, str) else "data"


def from_geometric(data: Any) -> RawGraph:
    """Read a `Data` object or a dataset: `edge_index`, `x`, `y`, masks, and as weights `edge_weight` or `edge_attr`.

    `edge_attr` must then be one column of floats. Without `edge_index`, edges and weights are those of `adj_t`.
    """
    name = name_of(data)
    if is_dataset(data):
        if len(data) != 1:
            raise InputError(
                f"source is a dataset of {len(data):,} graphs, expected one: samples are its nodes; the recipe graphs"
                " trains on whole graphs"
            )
        data = data[0]
    if hasattr(data, "edge_types"):
        raise InputError("source has nodes or edges of several kinds, expected one kind, as to_homogeneous() returns")
    edge_index, weights = getattr(data, "edge_index", None), getattr(data, "edge_weight", None)
    if edge_index is None and getattr(data, "adj_t", None) is not None:
        edge_index, weights = _transposed_edges(data.adj_t)
    if edge_index is None:
        raise InputError("source has no edge_index, expected the ends of all edges, (2, edges)")
    ends = array_of(edge_index)
    is_whole = ends.dtype.kind in "iu" or not ends.size  # the ends of no edges are often floats
    if ends.ndim != 2 or len(ends) != 2 or not is_whole:
        raise InputError(f"source: edge_index is {ends.dtype} {ends.shape}, expected whole numbers (2, edges)")
    column = getattr(data, "edge_attr", None)
    # Whole numbers are kinds of edges, such as bonds.
    if weights is None and column is not None and column.numel() == data.num_edges and column.is_floating_point():
        weights = column.flatten()
    y = np.zeros(0) if getattr(data, "y", None) is None else array_of(data.y)
    if y.ndim != 1 and y.shape[1:] != (1,):
        raise InputError(f"source: y is {y.dtype} {y.shape}, expected one label per node")
    return RawGraph(
        name,
        "source",
        int(data.num_nodes or 0),
        ends.astype(np.int64),
        None if weights is None else array_of(weights),
        None if getattr(data, "x", None) is None else array_of(data.x),
        *labels_of(y.ravel(), "source: y"),
        split=_split(data),
    )


def _transposed_edges(adjacency: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the ends and weights in a sparse matrix whose rows are targets, as the transform ToSparseTensor makes."""
    ends, weights = import_extra("torch_geometric", "adj_t", "graphs").utils.to_edge_index(adjacency)
    return ends.flip(0), weights


def _split(data: Any) -> Any:
    """Return the public split, or the first one if there are several."""
    masks: list[Any] = [getattr(data, name, None) for name in _MASKS]
    if any(mask is None for mask in masks):
        return None
    split = np.full(int(data.num_nodes), -1)
    for part, (name, mask) in enumerate(zip(_MASKS, map(array_of, masks), strict=True)):
        if len(mask) != len(split) or mask.dtype.kind not in "biu":
            raise InputError(f"source: {name} is {mask.dtype} {mask.shape}, expected {len(split)} booleans")
        split[(mask if mask.ndim == 1 else mask[:, 0]) > 0] = part
    return split


def array_of(tensor: Any) -> Any:
    """Return a tensor, possibly a sparse one or on a device, as an array."""
    if isinstance(tensor, torch.Tensor):
        tensor = tensor.to_dense() if tensor.layout != torch.strided else tensor
        # NumPy has no bfloat16.
        tensor = tensor.float() if tensor.is_floating_point() and tensor.dtype.itemsize < 4 else tensor
        return tensor.detach().cpu().numpy()
    return np.asarray(tensor)
