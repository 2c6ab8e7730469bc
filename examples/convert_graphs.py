"""Convert graphs that are published as pickles to the plain .npz files that `nonneg train graph` reads.

    python examples/convert_graphs.py planetoid/data/ind.cora.x cora.npz
    python examples/convert_graphs.py GraphData/datasets/amazon_photo.npz photo.npz

The first form reads the eight files of Planetoid beside the one that is named, with the public split; the second an
.npz of pickled SciPy matrices. A pickle can run any code, so these are read by an unpickler that admits the names
below and nothing else.
"""

import argparse
import io
import pickle
import sys
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


class Matrix:
    """Stands in for a pickled SciPy matrix: its parts are data, and no code of SciPy runs."""

    def csr(self) -> sp.csr_array:
        """Return the matrix, from parts that SciPy checks."""
        parts = {name.lstrip("_"): value for name, value in self.__dict__.items()}
        return sp.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=parts["shape"])


_RECONSTRUCT = np.zeros(0).__reduce__()[0]
ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy.core.multiarray", "scalar"): np.float64(0).__reduce__()[0],
    ("numpy._core.multiarray", "scalar"): np.float64(0).__reduce__()[0],
    ("scipy.sparse.csr", "csr_matrix"): Matrix,
    ("scipy.sparse._csr", "csr_matrix"): Matrix,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class StrictUnpickler(pickle.Unpickler):
    """Admits the names in `ADMITTED` and no other."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name stands for, or refuse it."""
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}, which is not admitted")
        return ADMITTED[module, name]


def unpickled(content: bytes) -> Any:
    """Return the object in a pickle of Python 2 or 3."""
    return StrictUnpickler(io.BytesIO(content), encoding="latin1").load()


def planetoid(path: Path) -> dict[str, np.ndarray]:
    """Read Planetoid's files `ind.NAME.*`: training nodes come first, test nodes last."""
    stem = path.name.removesuffix(path.suffix)
    tx, allx, y, ty, ally, neighbours = (
        unpickled((path.parent / f"{stem}.{part}").read_bytes()) for part in ("tx", "allx", "y", "ty", "ally", "graph")
    )
    test = np.array((path.parent / f"{stem}.test.index").read_text().split(), dtype=np.int64)
    nodes = int(test.max()) + 1  # some test nodes of CiteSeer are missing: they have neither attributes nor a label
    known = np.concatenate((np.arange(allx.csr().shape[0]), test))
    place = sp.csr_array((np.ones(len(known)), (known, np.arange(len(known)))), shape=(nodes, len(known)))
    attributes = sp.csr_array(place @ sp.vstack((allx.csr(), tx.csr()), format="csr"))
    labels = np.full(nodes, -1)
    labels[known] = np.concatenate((ally, ty)).argmax(1)
    ends = [(node, other) for node, others in neighbours.items() for other in others]
    adjacency = _binary(sp.csr_array((np.ones(len(ends)), np.array(ends).T), shape=(nodes, nodes)))
    split = np.full(nodes, -1)
    split[: len(y)], split[len(y) : len(y) + 500], split[test] = 0, 1, 2
    return graph_arrays(adjacency, attributes, labels, split)


def pickled_npz(path: Path) -> dict[str, np.ndarray]:
    """Read an .npz with the members adj_matrix, node_attr and node_label."""
    members = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            content = io.BytesIO(archive.read(name))
            np.lib.format.read_magic(content)
            _, _, dtype = np.lib.format.read_array_header_1_0(content)
            if not dtype.hasobject:
                members[name.removesuffix(".npy")] = np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
            elif not name.startswith("metadata"):
                members[name.removesuffix(".npy")] = unpickled(content.read()).item()
    adjacency, attributes = (_csr(members[name]) for name in ("adj_matrix", "node_attr"))
    return graph_arrays(_binary(adjacency), attributes, members["node_label"].astype(np.int64))


def graph_arrays(
    adjacency: sp.csr_array, attributes: sp.csr_array, labels: np.ndarray, split: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Return the arrays of a plain .npz: the parts of both matrices, labels, and the public split if there is one."""
    arrays = {"labels": labels}
    for name, matrix in (("adj", adjacency), ("attr", attributes)):
        matrix.sort_indices()
        parts = {"data": matrix.data.astype(np.float32), "indices": matrix.indices, "indptr": matrix.indptr}
        arrays |= {f"{name}_{part}": array for part, array in parts.items()}
        arrays[f"{name}_shape"] = np.array(matrix.shape)
    return arrays if split is None else {**arrays, "split": split}


def _csr(matrix: Any) -> sp.csr_array:
    """Return a pickled SciPy matrix, or a dense one, as a sparse one."""
    if isinstance(matrix, Matrix):
        return matrix.csr()
    if np.ndim(matrix) != 2:
        raise ValueError(f"a matrix has shape {np.shape(matrix)}, expected rows and columns")
    return sp.csr_array(matrix)


def _binary(adjacency: sp.csr_array) -> sp.csr_array:
    """Return edges of weight 1: these graphs have no weights, only repeated edges."""
    adjacency.sum_duplicates()
    adjacency.data = np.ones_like(adjacency.data)
    return adjacency


def main(arguments: list[str] | None = None) -> None:
    """Convert one graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="one of Planetoid's files ind.NAME.*, or a pickled .npz")
    parser.add_argument("target", type=Path, help="the .npz to write")
    given = parser.parse_args(arguments)
    target = given.target if given.target.suffix == ".npz" else Path(f"{given.target}.npz")
    if not target.parent.is_dir():
        sys.exit(f"{target.parent} is not a folder, expected one for {target.name}")
    try:
        arrays = pickled_npz(given.source) if given.source.suffix == ".npz" else planetoid(given.source)
    except (pickle.UnpicklingError, OSError, KeyError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        sys.exit(f"{given.source} cannot be converted: {type(error).__name__}: {error}")
    np.savez_compressed(target, **arrays)
    nodes, attributes = arrays["attr_shape"]
    print(f"Converted: {target}, {nodes:,} nodes, {len(arrays['adj_data']):,} edges, {attributes:,} attributes")


if __name__ == "__main__":
    main()
