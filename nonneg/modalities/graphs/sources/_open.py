"""`open_graph`: recognises the kind of data and reads it."""

import os
from pathlib import Path
from typing import Any

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.modalities.graphs._graph import RawGraph
from nonneg.modalities.graphs.sources._generated import citations
from nonneg.modalities.graphs.sources._geometric import from_geometric, is_geometric
from nonneg.modalities.graphs.sources._npz import from_npz
from nonneg.modalities.graphs.sources._tables import SUFFIXES, from_tables, table_in

_ACCEPTED = (
    "an .npz of plain arrays (adj_data, adj_indices, adj_indptr, …), a table of edges (.csv or .parquet), or a folder"
    " with the tables edges and nodes"
)


def open_graph(data: Any) -> RawGraph:
    """Read a graph from a path or an object of PyTorch Geometric.

    Args:
        data: "citations", a generated graph; the path of an .npz, of a table of edges, or of a folder with the tables
            edges and nodes; a `Data` object of PyTorch Geometric, or a dataset of one graph; a `RawGraph`.

    Raises:
        InputError: names what was found and what was expected.

    Example:
        >>> open_graph("citations").nodes
        1200
    """
    if isinstance(data, RawGraph):
        return data
    if isinstance(data, str) and data == "citations":
        return citations()
    if is_geometric(data):
        return from_geometric(data)
    if not isinstance(data, str | os.PathLike):
        raise InputError(
            f"data is a {type(data).__name__}, expected a path, or a Data object or dataset of PyTorch Geometric"
        )
    path = Path(data)
    with read_errors_as_input_errors(path):
        if not os.fspath(data) or not path.exists():
            raise InputError(f"data is {os.fspath(data)!r}, expected citations, or the path of {_ACCEPTED}")
        is_folder = path.is_dir()
        if not is_folder and not path.is_file():  # opening a pipe would block
            raise InputError(f"{path} is neither a folder nor a regular file, expected {_ACCEPTED}")
    if is_folder:
        edges = table_in(path, "edges")
        if edges is None:
            raise InputError(f"{path} holds no table of edges, expected edges.csv or edges.parquet")
        return from_tables(path, edges, table_in(path, "nodes"))
    if path.suffix.lower() == ".npz":
        return from_npz(path)
    if path.suffix.lower() in SUFFIXES:
        return from_tables(path, path, None)
    raise InputError(f"{path} has the suffix {path.suffix!r}, expected {_ACCEPTED}")
