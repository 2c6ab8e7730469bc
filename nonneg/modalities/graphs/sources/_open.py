"""`open_graph` and `open_graphs`: recognise the kind of data and read it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.modalities._splits import existing
from nonneg.modalities.graphs._raw import RawGraph, RawGraphs
from nonneg.modalities.graphs.sources._generated import citations
from nonneg.modalities.graphs.sources._geometric import from_geometric, is_geometric
from nonneg.modalities.graphs.sources._many import from_geometric_graphs, from_text, from_tu, tu_prefix
from nonneg.modalities.graphs.sources._motifs import motifs
from nonneg.modalities.graphs.sources._npz import PICKLED, from_npz
from nonneg.modalities.graphs.sources._tables import SUFFIXES, from_tables, table_in

_ACCEPTED = (
    "an .npz of plain arrays (adj_data, adj_indices, adj_indptr, …), a table of edges (.csv or .parquet), or a folder"
    " with the tables edges and nodes"
)
_PICKLED = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))  # how pickles begin
_PICKLE_SUFFIXES = (".pkl", ".pickle", ".pt", ".pth")
_CORA = Path(__file__).parent / "cora" / "cora.npz"
_BUNDLED: dict[str, Callable[[], RawGraph]] = {"citations": citations, "cora": lambda: from_npz(_CORA)}
_MANY_ACCEPTED = "a folder of the TU collection (NAME_A.txt, NAME_graph_indicator.txt, …) or a .txt as in pytorch_DGCNN"


def open_graph(data: Any) -> RawGraph:
    """Read a graph from a path or an object of PyTorch Geometric.

    Args:
        data: "citations", a generated graph; "cora", which is bundled; the path of an .npz, of a table of edges, or of
            a folder with the tables edges and nodes; a `Data` object of PyTorch Geometric, or a dataset of one graph; a
            `RawGraph`.

    Raises:
        InputError: names what was found and what was expected.

    Example:
        >>> open_graph("citations").nodes
        1200
    """
    if isinstance(data, RawGraph):
        return data
    if isinstance(data, str) and data in _BUNDLED:
        return _BUNDLED[data]()
    if is_geometric(data):
        return from_geometric(data)
    if not isinstance(data, str | os.PathLike):
        raise InputError(
            f"data is a {type(data).__name__}, expected a path, or a Data object or dataset of PyTorch Geometric"
        )
    path = existing(data, f"{', '.join(_BUNDLED)}, or the path of {_ACCEPTED}")
    if path.is_dir():
        if tu_prefix(path) is not None:
            raise InputError(f"{path} holds many graphs, expected one; the recipe graphs trains on whole graphs")
        edges = table_in(path, "edges")
        if edges is None:
            raise InputError(f"{path} holds no table of edges, expected edges.csv or edges.parquet")
        return from_tables(path, edges, table_in(path, "nodes"))
    _check_no_pickle(path)
    if path.suffix.lower() == ".npz":
        return from_npz(path)
    if path.suffix.lower() in SUFFIXES:
        return from_tables(path, path, None)
    hint = "; the recipe graphs reads many graphs from a .txt" if path.suffix.lower() == ".txt" else ""
    raise InputError(f"{path} has the suffix {path.suffix!r}, expected {_ACCEPTED}{hint}")


def open_graphs(data: Any) -> RawGraphs:
    """Read many graphs.

    Args:
        data: "motifs", generated graphs; the path of a folder of the TU collection (NAME_A.txt, …) or of a .txt file in
            the format of pytorch_DGCNN; a dataset of PyTorch Geometric, or a list of its `Data` objects; a `RawGraphs`.

    Raises:
        InputError: names what was found and what was expected.

    Example:
        >>> len(open_graphs("motifs").sizes)
        400
    """
    if isinstance(data, RawGraphs):
        return data
    if isinstance(data, str) and data == "motifs":
        return motifs()
    if is_geometric(data) or (isinstance(data, list | tuple) and data and all(map(is_geometric, data))):
        return from_geometric_graphs(data)
    if not isinstance(data, str | os.PathLike):
        raise InputError(f"data is a {type(data).__name__}, expected a path or a dataset of PyTorch Geometric")
    path = existing(data, f"motifs, or the path of {_MANY_ACCEPTED}")
    if path.is_file():
        _check_no_pickle(path)
    prefix = tu_prefix(path) if path.is_dir() else None
    if prefix is not None:
        return from_tu(prefix)
    if path.suffix.lower() == ".txt" and path.is_file():
        return from_text(path)
    raise InputError(f"{path} does not hold many graphs, expected {_MANY_ACCEPTED}")


def _check_no_pickle(path: Path) -> None:
    if _is_pickle(path):
        raise InputError(f"{path} {PICKLED}")


def _is_pickle(path: Path) -> bool:
    """Whether a file looks like a pickle or is named so: old pickles begin like text, and those of torch are .zip."""
    with read_errors_as_input_errors(path), path.open("rb") as file:
        start = file.read(2)
    suffix, is_planetoid = path.suffix.lower(), path.name.startswith("ind.")
    is_named_so = suffix in _PICKLE_SUFFIXES or (is_planetoid and suffix not in (".npz", ".txt", *SUFFIXES))
    return is_named_so or start in _PICKLED
