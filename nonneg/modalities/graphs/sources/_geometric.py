"""Graphs as objects of PyTorch Geometric, recognised by what they have, so that the package is not imported."""

from typing import Any

import numpy as np
import torch

from nonneg.errors import InputError
from nonneg.modalities.graphs._raw import RawGraph, labels_of

_MASKS = ("train_mask", "val_mask", "test_mask")


def is_geometric(data: Any) -> bool:
    """Whether this is a `Data` object or a dataset of PyTorch Geometric."""
    return any(kind.__module__.startswith("torch_geometric.data") for kind in type(data).__mro__)


def from_geometric(data: Any) -> RawGraph:
    """Read a `Data` object or a dataset: `edge_index`, `x`, `y`, masks, and as weights `edge_weight` or `edge_attr`.

    `edge_attr` must then be one column of floats.
    """
    name = str(getattr(data, "name", "") or "data").lower()
    if hasattr(data, "edge_types"):
        raise InputError("source has nodes or edges of several kinds, expected one kind, as to_homogeneous() returns")
    if not hasattr(data, "edge_index") or not hasattr(data, "num_nodes"):
        if len(data) != 1:
            raise InputError(f"source is a dataset of {len(data):,} graphs, expected one: samples are its nodes")
        data = data[0]
    if getattr(data, "edge_index", None) is None:
        raise InputError("source has no edge_index, expected the ends of all edges, (2, edges)")
    ends = array_of(data.edge_index)
    is_whole = ends.dtype.kind in "iu" or not ends.size  # the ends of no edges are often floats
    if ends.ndim != 2 or len(ends) != 2 or not is_whole:
        raise InputError(f"source: edge_index is {ends.dtype} {ends.shape}, expected whole numbers (2, edges)")
    weights = getattr(data, "edge_weight", None)
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
        return tensor.detach().cpu().numpy()
    return np.asarray(tensor)
