"""Features in vector stores: one function each, for a client that you have connected.

Rows have length 1 and no inactive entries, as in `nonneg.search`, so that the store's inner product is the cosine
similarity. Beside its code, each row has its number `row`, its `id`, and, where there are any, its `label` (by name)
and `text`; `active` lists the features that are active on it, for filters.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.features import Features
from nonneg.messages import one_line

_TOGETHER = 1_000  # rows per request
_MOST_ACTIVE = 4_096  # entries that an array of Milvus holds: more are an error of Milvus
_MOST_BYTES = 65_535  # of a text in Milvus


def to_qdrant(features: Features, client: Any, collection: str, overwrite: bool = False) -> None:
    """Write features to a collection of Qdrant with the sparse vector `code`.

    Args:
        features: what to write.
        client: a `QdrantClient`.
        collection: its name.
        overwrite: replace a collection of this name.
    """
    models = import_extra("qdrant_client", "to_qdrant", extra="qdrant").models
    with _errors_as_input_errors("Qdrant", collection):
        if client.collection_exists(collection):
            _check_overwrite(collection, overwrite)
            client.delete_collection(collection)
        client.create_collection(
            collection, vectors_config={}, sparse_vectors_config={"code": models.SparseVectorParams()}
        )
        for rows, codes in _blocks(features):
            points = [
                models.PointStruct(
                    id=row["row"],
                    vector={"code": models.SparseVector(indices=row["active"], values=codes[i].data.tolist())},
                    payload=row,
                )
                for i, row in enumerate(rows)
            ]
            client.upsert(collection, points)


def to_milvus(features: Features, client: Any, collection: str, overwrite: bool = False) -> None:
    """Write features to a collection of Milvus with the vector `code`: sparse for sparse features, otherwise dense.

    Args:
        features: what to write; sparse ones must not be negative.
        client: a `MilvusClient`, of a cluster or of a file.
        collection: its name.
        overwrite: replace a collection of this name.
    """
    kinds = import_extra("pymilvus", "to_milvus", extra="milvus").DataType
    if features.is_sparse and features.units.data.min(initial=0) < 0:
        raise InputError("features have negative entries, expected none: Milvus has no negative sparse vectors")
    _check_for_milvus(features)  # before an earlier collection is removed
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("row", kinds.INT64, is_primary=True)
    for name in ("id", "label", "text"):
        schema.add_field(name, kinds.VARCHAR, max_length=_MOST_BYTES, nullable=True)
    schema.add_field("active", kinds.ARRAY, element_type=kinds.INT64, max_capacity=_MOST_ACTIVE)
    index = client.prepare_index_params()
    if features.is_sparse:
        schema.add_field("code", kinds.SPARSE_FLOAT_VECTOR)
        index.add_index(field_name="code", index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
    else:
        schema.add_field("code", kinds.FLOAT_VECTOR, dim=features.shape[1])
        index.add_index(field_name="code", index_type="AUTOINDEX", metric_type="IP")
    with _errors_as_input_errors("Milvus", collection):
        if client.has_collection(collection):
            _check_overwrite(collection, overwrite)
            client.drop_collection(collection)
        client.create_collection(collection, schema=schema, index_params=index, consistency_level="Strong")
        for rows, codes in _blocks(features):
            dense = None if features.is_sparse else codes.toarray()
            entries = [
                {"label": None, "text": None, **row, "code": _pairs(row, codes, i) if dense is None else dense[i]}
                for i, row in enumerate(rows)
            ]
            client.insert(collection, entries)


def to_lancedb(features: Features, connection: Any, table: str, overwrite: bool = False) -> Any:
    """Write features to a table of LanceDB with the column `vector`, dense; return the table.

    Args:
        features: what to write.
        connection: what `lancedb.connect` returns.
        table: its name.
        overwrite: replace a table of this name.
    """
    kind = pa.list_(pa.float32(), features.shape[1])
    schema = pa.schema(
        {"row": pa.int64(), "id": pa.string(), "label": pa.string(), "text": pa.large_string()}
        | {"active": pa.list_(pa.int32()), "vector": kind}
    )

    def batches() -> Iterator[pa.RecordBatch]:
        for rows, codes in _blocks(features):
            given = [field for field in schema if field.name != "vector"]
            columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in given]
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(codes.toarray().ravel(), pa.float32()), type=kind)
            yield pa.RecordBatch.from_arrays([*columns, vectors], schema=schema)

    with _errors_as_input_errors("LanceDB", table):
        if table in _tables(connection):
            _check_overwrite(table, overwrite)
        reader = pa.RecordBatchReader.from_batches(schema, batches())
        return connection.create_table(table, data=reader, schema=schema, mode="overwrite" if overwrite else "create")


def _blocks(features: Features) -> Iterator[tuple[list[dict[str, Any]], sp.csr_array]]:
    """Yield what is stored of some rows, and their codes in float32."""
    columns = features.samples.column_names
    units = features.units
    for start in range(0, len(features), _TOGETHER):
        codes = sp.csr_array(units[start : start + _TOGETHER]).astype(np.float32)
        samples = features.samples.slice(start, codes.shape[0])
        texts = samples.column("text").to_pylist() if "text" in columns else None
        rows: list[dict[str, Any]] = []
        for i in range(codes.shape[0]):
            row, active = start + i, codes.indices[codes.indptr[i] : codes.indptr[i + 1]]
            about = {"row": row, "id": features.id(row), "active": active.tolist()}
            if features.labels is not None and features.labels[row] >= 0:
                about["label"] = features.label_name(int(features.labels[row]))
            if texts is not None and texts[i] is not None:
                about["text"] = texts[i]
            rows.append(about)
        yield rows, codes


def _check_for_milvus(features: Features) -> None:
    active = int(np.diff(features.units.indptr).max())
    if active > _MOST_ACTIVE:
        raise InputError(f"a row has {active:,} active features, expected at most {_MOST_ACTIVE:,} in Milvus")
    for name in {"id", "text"} & set(features.samples.column_names):
        longest = pc.max(pc.binary_length(features.samples[name])).as_py() or 0
        if longest > _MOST_BYTES:
            raise InputError(f"{name}: one has {longest:,} bytes, expected at most {_MOST_BYTES:,} in Milvus")
    longest = max((len(name.encode()) for name in features.label_names), default=0)
    if longest > _MOST_BYTES:
        raise InputError(f"label_names: one has {longest:,} bytes, expected at most {_MOST_BYTES:,} in Milvus")


def _pairs(row: dict[str, Any], codes: sp.csr_array, i: int) -> dict[int, float]:
    return dict(zip(row["active"], codes[i].data.tolist(), strict=True))


def _tables(connection: Any) -> list[str]:
    listed = connection.list_tables() if hasattr(connection, "list_tables") else connection.table_names()
    return list(getattr(listed, "tables", listed))


def _check_overwrite(name: str, overwrite: bool) -> None:
    if not overwrite:
        raise InputError(f"{name} exists already; choose another name, or overwrite=True to replace it")


@contextmanager
def _errors_as_input_errors(store: str, name: str) -> Iterator[None]:
    """Turn errors of a store's client, of many types, into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{name} cannot be written to {store}: {one_line(error)}") from error
