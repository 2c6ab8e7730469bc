"""Graphs in tables: a list of edges, and a table of nodes with labels and attributes, in CSV or Parquet."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from nonneg.durable import check_regular_file, read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import one_line
from nonneg.modalities.graphs._raw import RawGraph, labels_of
from nonneg.tables import ROW_NAMES

SUFFIXES = (".csv", ".parquet")
_SPLITS = {"train": 0, "val": 1, "validation": 1, "test": 2}


def table_in(folder: Path, name: str) -> Path | None:
    """Return the path of a table in a folder, or None."""
    found = [path for suffix in SUFFIXES if (path := folder / f"{name}{suffix}").is_file()]
    if len(found) > 1:
        raise InputError(f"{folder} holds {found[0].name} and {found[1].name}, expected one of them")
    return found[0] if found else None


def from_tables(path: Path, edges: Path, nodes: Path | None) -> RawGraph:
    """Read a graph from tables.

    Args:
        path: what the graph is called.
        edges: columns source, target and possibly weight.
        nodes: columns id, possibly label and split (train, validation or test), and numbers: the attributes. Without
            it, the nodes are those that edges name, without attributes.
    """
    table = _read(edges, ("source", "target"))
    ends = [_strings(edges, table, name) for name in ("source", "target")]
    weights = _numbers(edges, table, ["weight"])[:, 0] if "weight" in table.column_names else None
    content: dict[str, Any] = {}
    if nodes is None:
        ids = pc.unique(pa.chunked_array([*ends[0].chunks, *ends[1].chunks], pa.string()))
    else:
        ids, content = _nodes(nodes)
    numbers = [pc.index_in(column, ids).to_numpy(zero_copy_only=False) for column in ends]
    for column, found in zip(ends, numbers, strict=True):
        unknown = np.isnan(found.astype(float))
        if unknown.any():
            row = int(np.flatnonzero(unknown)[0])
            raise InputError(f"{edges}: row {row} names node {column[row]}, expected one of the ids in {nodes}")
    return RawGraph(
        path.stem,
        str(path),
        len(ids),
        np.stack(numbers).astype(np.int64),
        weights,
        ids=tuple(ids.to_pylist()),
        **content,
    )


def _nodes(path: Path) -> tuple[Any, dict[str, Any]]:
    table = _read(path, ("id",))
    ids = _strings(path, table, "id").combine_chunks()
    if len(pc.unique(ids)) < len(ids):
        twice = next(item["values"] for item in pc.value_counts(ids).to_pylist() if item["counts"] > 1)
        raise InputError(f"{path}: id {twice} is there more than once, expected a different id for each node")
    content: dict[str, Any] = {}
    if "label" in table.column_names:
        content["labels"], content["label_names"] = labels_of(table["label"].to_pylist(), f"{path}: label")
    if "split" in table.column_names:
        words = table["split"].to_pylist()
        if unknown := [word for word in words if word not in (None, "", *_SPLITS)]:
            raise InputError(f"{path}: split has {unknown[0]!r}, expected {', '.join(_SPLITS)} or nothing")
        content["split"] = np.array([_SPLITS.get(word or "", -1) for word in words])
    names = [name for name in table.column_names if name not in ("id", "label", "split")]
    if "" in names:
        raise InputError(
            f"{path}: column {table.column_names.index('') + 1} has no name, expected a name for each column (pandas"
            " writes its index like this; use index=False)"
        )
    names = [name for name in names if not ROW_NAMES.fullmatch(name)]
    if names:
        content |= {"attributes": _numbers(path, table, names), "attribute_names": tuple(names)}
    return ids, content


def _read(path: Path, texts: tuple[str, ...]) -> Any:
    """Read a table; the columns in `texts` must exist and are read as they are written."""
    check_regular_file(path)
    try:
        with read_errors_as_input_errors(path):
            if path.suffix.lower() == ".parquet":
                table = pa.parquet.read_table(path)
            else:
                types = pa.csv.ConvertOptions(column_types=dict.fromkeys((*texts, "split"), pa.string()))
                table = pa.csv.read_csv(path, convert_options=types)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a table: {one_line(error)}") from error
    if len(set(table.column_names)) < len(table.column_names):
        raise InputError(f"{path} has two columns of the same name, expected different names")
    for name in texts:
        if name not in table.column_names:
            found = ", ".join(table.column_names[:8])
            raise InputError(f"{path} has the columns {found}, expected a column {name}")
    return table


def _strings(path: Path, table: Any, name: str) -> Any:
    try:
        column = table[name].cast(pa.string())
    except pa.ArrowException as error:
        found = f"column {name} holds {table[name].type}"
        raise InputError(f"{path}: {found}, expected ids of nodes: text in UTF-8 or numbers") from error
    is_empty = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True)
    if pc.any(is_empty).as_py():
        row = is_empty.to_pylist().index(True)
        raise InputError(f"{path}: {name} is empty in row {row}, expected a node's id")
    return column


def _numbers(path: Path, table: Any, names: list[str]) -> Any:
    """Return columns of numbers `(rows, columns)`; a missing number is NaN, which is rejected with all others."""
    columns = []
    for name in names:
        kind = table[name].type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise InputError(f"{path}: column {name} holds {kind}, expected numbers")
        columns.append(table[name].cast(pa.float32(), safe=False).to_numpy())
    return np.stack(columns, axis=1)
