"""The Milvus engine: Milvus Lite in the index's folder, or a cluster at an address that the user gives."""

import json
import logging
import os
import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.compiled import Lists
from nonneg.durable import os_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.messages import one_line
from nonneg.payload import Array, Entry
from nonneg.search._engine import Engine, Found, Where
from nonneg.search._rank import checked_mask
from nonneg.search._table import Table

_MOST_HITS = 16_384  # hits per query that Milvus returns
_MOST_ACTIVE = 4_096  # entries that an array of Milvus holds
_TOGETHER = 1_000  # rows per insert
_QUERIES = 256  # queries per search
_open_databases: Counter[Path] = Counter()  # Milvus Lite runs one server per file, shared by this process


class Milvus(Engine):
    """A collection that holds each row's number, label, active features and code.

    If a cluster requires a login, set its token in the environment variable MILVUS_TOKEN. The token is not saved, and
    it is sent only to an address that the user gave, never to one that an index's folder names.
    """

    name = "milvus"
    keeps_lists = False
    settings = ("uri",)

    def __init__(self, uri: str, collection: str, database: Path | None, temporary: bool = False) -> None:
        self._uri, self._collection, self._database, self._temporary = uri, collection, database, temporary
        self._milvus = _import("pymilvus")
        if database is not None:
            _import("milvus_lite")
        for noisy in ("pymilvus", "milvus_lite"):  # what they log as an error is raised as an InputError
            logging.getLogger(noisy).setLevel(logging.CRITICAL)
        self._client = self._connected()

    @classmethod
    def build(cls, table: Table, codes: sp.csr_array, uri: str = "") -> "Milvus":
        """Insert codes into a new collection.

        Args:
            table: the ids and labels of the rows.
            codes: the codes of all rows.
            uri: the address of a cluster, `http://host:19530`; Milvus Lite in a file by default.
        """
        database = None if uri else Path(tempfile.mkdtemp()) / _new_database()
        engine = cls(_checked_uri(uri), f"nonneg_{secrets.token_hex(8)}", database, temporary=database is not None)
        with engine._errors_as_input_errors():
            engine._create()
        engine.add(0, codes, table.labels(np.arange(table.rows)))
        return engine

    @classmethod
    def open(cls, folder: Path, table: Table, settings: Mapping[str, Any], files: Mapping[str, Entry]) -> "Milvus":
        """Connect to the database in the folder, or to the cluster at the address that the user gives."""
        database = folder / settings["database"] if "database" in settings else None
        if database is not None and not database.is_dir():
            raise InputError(f"{database} is missing, expected the database of the index; build the index again")
        uri = "" if database is not None else _checked_uri(settings["uri"] or os.environ.get("MILVUS_URI", ""))
        if database is None and not uri:
            built = f"it was built at {settings.get('built_at')!r}"
            raise InputError(
                f"{folder} needs the address of a Milvus cluster, expected it as --uri or in MILVUS_URI; {built}"
            )
        engine = cls(uri, str(settings.get("collection")), database)
        with engine._errors_as_input_errors():
            is_there = engine._client.has_collection(engine._collection)
            if is_there:
                engine._client.load_collection(engine._collection)
        if not is_there:
            engine.close()
            raise InputError(f"{engine._place} has no collection {engine._collection}; build the index again")
        return engine

    def _create(self) -> None:
        kinds = self._milvus.DataType
        schema = self._milvus.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("row", kinds.INT64, is_primary=True)
        schema.add_field("label", kinds.INT64)
        schema.add_field("active", kinds.ARRAY, element_type=kinds.INT64, max_capacity=_MOST_ACTIVE)
        schema.add_field("code", kinds.SPARSE_FLOAT_VECTOR)
        index = self._milvus.MilvusClient.prepare_index_params()
        index.add_index(field_name="code", index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
        self._client.create_collection(self._collection, schema=schema, index_params=index, consistency_level="Strong")

    # Queries

    def search(self, table: Table, queries: Lists, k: int, where: Where) -> Found:
        total, k = len(queries.starts) - 1, min(k, table.rows)
        if k > _MOST_HITS:
            raise InputError(f"k is {k}, expected at most {_MOST_HITS:,} with engine milvus")
        rows, scores = np.full((total, k), -1), np.zeros((total, k))
        filled = np.flatnonzero(np.diff(queries.starts))
        expression = self._expression(table, where)
        for start in range(0, len(filled), _QUERIES):
            block = filled[start : start + _QUERIES]
            codes = [_as_code(queries, query) for query in block]
            with self._errors_as_input_errors():
                results = self._client.search(
                    self._collection,
                    data=codes,
                    anns_field="code",
                    limit=k,
                    filter=expression,
                    search_params={"metric_type": "IP"},
                    output_fields=["row"],
                )
            for query, found in zip(block, results, strict=True):
                hits = sorted(((float(hit["distance"]), int(hit["row"])) for hit in found), key=lambda h: (-h[0], h[1]))
                for place, (score, row) in enumerate(hits):
                    rows[query, place], scores[query, place] = row, score
        return Found(rows, scores)

    def _expression(self, table: Table, where: Where) -> str:
        # Rows beyond the last are those of an interrupted addition.
        parts = [f"row < {table.rows}"]
        if where.labels is not None:
            parts.append(f"label in {json.dumps(list(where.labels))}")
        if where.without:
            parts.append(f"not array_contains_any(active, {json.dumps(list(where.without))})")
        if where.require:
            parts.append(f"array_contains_all(active, {json.dumps(list(where.require))})")
        if where.rows is not None:
            parts.append(f"row in {json.dumps(np.flatnonzero(checked_mask('where', where.rows, table.rows)).tolist())}")
        return " and ".join(parts)

    def values(self, table: Table, rows: Array, features: Array) -> Array:
        with self._errors_as_input_errors():
            stored = self._client.get(self._collection, ids=rows.tolist(), output_fields=["code"]) if len(rows) else []
        codes = {int(entry["row"]): entry["code"] for entry in stored}
        return np.array([[codes.get(int(row), {}).get(int(f), 0.0) for f in features] for row in rows], np.float64)

    # Changes

    def add(self, first: int, codes: sp.csr_array, labels: Array | None) -> None:
        lengths = np.diff(codes.indptr)
        if lengths.max() > _MOST_ACTIVE:
            raise InputError(
                f"a row has {lengths.max():,} active features, expected at most {_MOST_ACTIVE:,} with engine milvus"
            )
        lists = Lists(codes.indptr, codes.indices, codes.data)
        filled = np.flatnonzero(lengths)  # Milvus accepts no empty codes, and no query finds one
        with self._errors_as_input_errors():
            if first:  # remove the rows of an interrupted addition
                self._client.delete(self._collection, filter=f"row >= {first}")
            for start in range(0, len(filled), _TOGETHER):
                entries = []
                for row in filled[start : start + _TOGETHER]:
                    code = _as_code(lists, row)
                    label = -1 if labels is None else int(labels[row])
                    entries.append({"row": first + int(row), "label": label, "active": list(code), "code": code})
                self._client.upsert(self._collection, entries)
            self._client.flush(self._collection)
            self._client.load_collection(self._collection)

    def delete(self, rows: Array) -> None:
        with self._errors_as_input_errors():
            if len(rows):
                self._client.delete(self._collection, ids=rows.tolist())

    # Storage

    def store(self, folder: Path) -> tuple[Mapping[str, Any], Mapping[str, Entry]]:
        if self._database is None:
            return {"built_at": self._uri, "collection": self._collection}, {}
        if self._database.parent != folder:
            before, was_temporary = self._database, self._temporary
            self._disconnect()
            with os_errors_as_input_errors(folder):
                self._database = Path(shutil.copytree(before, folder / _new_database()))
            if was_temporary:
                shutil.rmtree(before.parent, ignore_errors=True)
            self._temporary = False
            self._client = self._connected()
            with self._errors_as_input_errors():
                self._client.load_collection(self._collection)
        return {"database": self._database.name, "collection": self._collection}, {}

    def close(self) -> None:
        self._disconnect()
        if self._temporary and self._database is not None:
            shutil.rmtree(self._database.parent, ignore_errors=True)

    @property
    def _place(self) -> str:
        return self._uri if self._database is None else str(self._database)

    def _connected(self) -> Any:
        with self._errors_as_input_errors():
            if self._database is None:
                return self._milvus.MilvusClient(self._uri, token=os.environ.get("MILVUS_TOKEN", ""))
            client = self._milvus.MilvusClient(str(self._database))
            _open_databases[self._database.resolve()] += 1
            return client

    def _disconnect(self) -> None:
        self._client.close()
        if self._database is None:
            return
        place = self._database.resolve()
        _open_databases[place] -= 1
        if _open_databases[place] <= 0:
            del _open_databases[place]
            _import("milvus_lite.server_manager").server_manager_instance.release_server(str(self._database))

    @contextmanager
    def _errors_as_input_errors(self) -> Iterator[None]:
        """Raise the errors of Milvus as `InputError`."""
        try:
            yield
        except self._milvus.MilvusException as error:
            reason = one_line(error)
            if "Open local milvus failed" in reason:
                reason = "it is damaged, or another process has it open; Milvus Lite serves one process at a time"
            raise InputError(f"{self._place} cannot be used: {reason}") from error


def _import(package: str) -> Any:
    return import_extra(package, "engine milvus", extra="milvus")


def _checked_uri(uri: str) -> str:
    if uri and not uri.startswith(("http://", "https://", "tcp://")):
        raise InputError(f"uri is {uri!r}, expected the address of a Milvus cluster such as http://host:19530")
    return uri


def _new_database() -> str:
    return f"milvus-{secrets.token_hex(8)}.db"


def _as_code(lists: Lists, row: int) -> dict[int, float]:
    span = slice(*lists.starts[row : row + 2])
    return dict(zip(lists.places[span].tolist(), lists.values[span].tolist(), strict=True))
