"""Graphs in an .npz of plain arrays: the CSR parts of the adjacency and of the attributes, labels and names."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nonneg.durable import MOST_BYTES, read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import one_line
from nonneg.modalities.graphs._raw import RawGraph, labels_of

_PARTS = ("data", "indices", "indptr", "shape")
_SHOWN = 12  # names of arrays in an error message
_MASKS = ("train_mask", "val_mask", "test_mask")
_READ = (
    *(f"{name}_{part}" for name in ("adj", "attr") for part in _PARTS),
    *("attr_matrix", "labels", "split", *_MASKS, "node_names", "attr_names", "class_names"),
)
_MOST_NUMBERS = MOST_BYTES // 8  # of an array of indices, which are read as int64
_MOST_NAMES = 2**24  # and attributes, unless as many nodes or entries are stored: each takes memory
PICKLED = (
    "holds pickled objects, which can run any code and are not read, expected plain arrays; examples/convert_graphs.py"
    " converts the files of Planetoid and the .npz files of GraphData; load others in Python and pass the graph as"
    " nonneg.train(…, source=graph)"
)
"""What is wrong with a file of pickles."""


def from_npz(path: Path) -> RawGraph:
    """Read `adj_data`, `adj_indices`, `adj_indptr`, `adj_shape`; if present `attr_…`, `labels`, `split` and names.

    Row i of the adjacency holds the edges that leave node i. Dense attributes are one array, `attr_matrix`. The split
    is 0 (train), 1 (validation), 2 (test) or -1 per node, or three masks `train_mask`, `val_mask` and `test_mask`.
    Names are `node_names`, `attr_names` and `class_names`.
    """
    arrays = _arrays(path)
    starts, targets, weights, shape = _csr(path, arrays, "adj")
    if shape[0] != shape[1]:
        raise InputError(f"{path}: adj_shape is {shape}, expected as many rows as columns")
    nodes = shape[0]
    ends = np.stack((np.repeat(np.arange(nodes), np.diff(starts)), targets))
    labels, label_names = _labels(path, arrays, nodes)
    return RawGraph(
        path.stem,
        str(path),
        nodes,
        ends,
        weights,
        _attributes(path, arrays),
        labels,
        label_names,
        _names(path, arrays, "node_names", nodes),
        _names(path, arrays, "attr_names", None),
        _split(path, arrays, nodes),
    )


def _arrays(path: Path) -> Mapping[str, Any]:
    """Read the arrays that a graph may have; others are not read."""
    try:
        with read_errors_as_input_errors(path), zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            read = {name: member for name, member in members.items() if name in _READ}
            _check_sizes(path, read)
            found = {}
            for name, member in read.items():
                with archive.open(member) as file:
                    found[name] = np.lib.format.read_array(file, allow_pickle=False)
    except InputError:
        raise
    except Exception as error:  # damaged files make NumPy and zipfile raise nearly anything
        if "allow_pickle" in str(error):
            raise InputError(f"{path} {PICKLED}") from error
        raise InputError(f"{path} is damaged or not a plain NumPy file: {one_line(error)}") from error
    if missing := [f"adj_{part}" for part in _PARTS if f"adj_{part}" not in found]:
        held = ", ".join(sorted(members)[:_SHOWN]) or "nothing"
        raise InputError(
            f"{path} holds {held}, expected {', '.join(missing)} too: the CSR parts of the adjacency (pickled matrices"
            " are converted by examples/convert_graphs.py)"
        )
    return found


def _check_sizes(path: Path, members: Mapping[str, zipfile.ZipInfo]) -> None:
    """Raise an error if arrays are too large for memory once they are decompressed."""
    total = sum(member.file_size for member in members.values())
    if total > MOST_BYTES:
        raise InputError(f"{path} holds arrays of {total:,} bytes, expected at most {MOST_BYTES:,}")
    for name, member in members.items():
        # Of other methods, zipfile decompresses more than it is asked for.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            found = f"{name} is compressed by method {member.compress_type} of .zip"
            raise InputError(f"{path}: {found}, expected a file that NumPy saved")


def _csr(path: Path, arrays: Mapping[str, Any], name: str) -> tuple[Any, Any, Any, tuple[int, int]]:
    """Return the checked starts, columns, values and shape of a matrix; columns may still be too large.

    SciPy's loops do not check indices: wrong ones would read and write outside of its arrays.
    """
    values = arrays[f"{name}_data"]
    columns, starts, shape = (_indices(path, arrays, f"{name}_{part}") for part in _PARTS[1:])
    if shape.shape != (2,) or values.shape != columns.shape or values.dtype.kind not in "fiub":
        found = f"{name}_shape has {len(shape)} entries, {name}_data is {values.dtype} {values.shape}"
        raise InputError(f"{path}: {found}, expected two numbers and one number per entry of {name}_indices")
    rows, width = shape.tolist()
    ordered = len(starts) == rows + 1 and starts[0] == 0 and starts[-1] == len(columns) and (np.diff(starts) >= 0).all()
    if not ordered:
        raise InputError(
            f"{path}: {name}_indptr has {len(starts)} entries and ends in {starts[-1] if len(starts) else 'nothing'},"
            f" expected {rows + 1} that never fall, from 0 to {len(columns)}"
        )
    most = max(_MOST_NAMES, rows, len(columns))
    if width > most:
        raise InputError(f"{path}: {name}_shape is {(rows, width)}, expected at most {most:,} columns")
    return starts, columns, values, (rows, width)


def _indices(path: Path, arrays: Mapping[str, Any], name: str) -> npt.NDArray[np.int64]:
    """Return whole numbers from 0 as int64: differences of unsigned numbers would never be negative."""
    given = arrays[name]
    if given.ndim != 1 or given.dtype.kind not in "iu" or len(given) > _MOST_NUMBERS:
        expected = f"at most {_MOST_NUMBERS:,} whole numbers in one row"
        raise InputError(f"{path}: {name} is {given.dtype} {given.shape}, expected {expected}")
    numbers: npt.NDArray[np.int64] = given.astype(np.int64)
    if (numbers < 0).any():  # unsigned ones that are too large, too
        raise InputError(f"{path}: {name} has {given[numbers < 0][0]}, expected numbers from 0 to {2**63 - 1:,}")
    return numbers


def _attributes(path: Path, arrays: Mapping[str, Any]) -> Any:
    if "attr_matrix" in arrays:
        dense = arrays["attr_matrix"]
        if dense.ndim != 2 or dense.dtype.kind not in "fiub":
            raise InputError(
                f"{path}: attr_matrix is {dense.dtype} {dense.shape}, expected numbers (nodes, attributes)"
            )
        return dense
    if not any(f"attr_{part}" in arrays for part in _PARTS):
        return None
    if missing := [f"attr_{part}" for part in _PARTS if f"attr_{part}" not in arrays]:
        raise InputError(f"{path}: {missing[0]} is missing, expected all CSR parts of the attributes")
    starts, columns, values, shape = _csr(path, arrays, "attr")
    if columns.max(initial=-1) >= shape[1]:
        raise InputError(f"{path}: attr_indices has {columns.max()}, expected numbers from 0 to {shape[1] - 1}")
    with np.errstate(over="ignore"):  # what becomes infinite is an error later
        return sp.csr_array((values.astype(np.float32), columns, starts), shape=shape)


def _labels(path: Path, arrays: Mapping[str, Any], nodes: int) -> tuple[Any, tuple[str, ...]]:
    if "labels" not in arrays:
        return None, ()
    given = arrays["labels"]
    if given.ndim != 1 or len(given) != nodes:
        raise InputError(f"{path}: labels has shape {given.shape}, expected ({nodes},), one per node")
    numbers, names = labels_of(given, f"{path}: labels")
    words = _names(path, arrays, "class_names", None)
    known = names and all(name.isdecimal() and int(name) < len(words) for name in names)
    return numbers, tuple(words[int(name)] for name in names) if words and known else names


def _names(path: Path, arrays: Mapping[str, Any], name: str, count: int | None) -> tuple[str, ...]:
    if name not in arrays:
        return ()
    given = arrays[name]
    least, most = (0, _MOST_NAMES) if count is None else (count, count)
    if given.ndim != 1 or given.dtype.kind not in "UiuS" or not least <= len(given) <= most:
        expected = f"at most {most:,}" if count is None else count
        raise InputError(f"{path}: {name} is {given.dtype} {given.shape}, expected {expected} strings")
    return tuple(value.decode(errors="replace") if isinstance(value, bytes) else str(value) for value in given.tolist())


def _split(path: Path, arrays: Mapping[str, Any], nodes: int) -> npt.NDArray[np.int64] | None:
    if "split" in arrays:
        given = arrays["split"]
        if given.shape != (nodes,) or given.dtype.kind not in "iu" or not np.isin(given, (-1, 0, 1, 2)).all():
            raise InputError(f"{path}: split is {given.dtype} {given.shape}, expected -1, 0, 1 or 2 for each node")
        return np.asarray(given, np.int64)
    if not all(mask in arrays for mask in _MASKS):
        return None
    split = np.full(nodes, -1)
    for part, mask in enumerate(_MASKS):
        if arrays[mask].shape != (nodes,) or arrays[mask].dtype != bool:
            raise InputError(
                f"{path}: {mask} is {arrays[mask].dtype} {arrays[mask].shape}, expected ({nodes},) booleans"
            )
        split[arrays[mask]] = part
    return split
