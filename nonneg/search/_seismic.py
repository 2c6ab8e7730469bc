"""The Seismic engine: approximate, for speed on one machine. Its hits are scored again exactly."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.compiled import Lists
from nonneg.durable import os_errors_as_input_errors, temporary_path
from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.messages import one_line
from nonneg.payload import Array, Entry, adopted, checked_content, damaged
from nonneg.search._engine import Engine, Found, Where
from nonneg.search._scoring import cores
from nonneg.search._table import Table

_FEW_FEATURES = 2**16  # from this number of features on, Seismic needs its large variant


class Seismic(Engine):
    """Scans only the promising blocks of the inverted lists. It supports neither changes nor filters.

    Seismic stores values in half precision and returns a batch in any order: hits are matched to their queries by
    name and scored again with the values of the table.
    """

    name = "seismic"
    settings = ("postings", "heap_factor", "query_features")

    def __init__(self, index: Any, features: int, settings: Mapping[str, Any]) -> None:
        self._index, self._settings = index, dict(settings)
        self._tokens = np.arange(features).astype(_seismic().get_seismic_string())

    @classmethod
    def build(
        cls,
        table: Table,
        codes: sp.csr_array,
        postings: int = 1500,
        heap_factor: float = 0.8,
        query_features: int = 12,
    ) -> "Seismic":
        """Index codes.

        Args:
            table: the table that holds their inverted lists.
            codes: the codes of all rows.
            postings: the mean number of rows that are kept in a feature's list.
            heap_factor: the share of the worst hit's score that a block's estimated score must reach for the block to
                be scanned: a larger factor is faster and finds less.
            query_features: the number of a query's features to scan, largest first.
        """
        seismic = _seismic()
        _check_settings(heap_factor, postings=postings, query_features=query_features)
        variant = "LV" if table.features >= _FEW_FEATURES else ""
        dataset = getattr(seismic, f"SeismicDataset{variant}")(dim=table.features)
        names = [str(row) for row in range(codes.shape[0])]
        with _silent():
            dataset.add_documents_by_id(
                names, codes.indices.astype(np.int64), codes.data, codes.indptr.astype(np.int64)
            )
            index = getattr(seismic, f"SeismicIndex{variant}").build_from_dataset(
                dataset, n_postings=postings, num_threads=cores()
            )
        return cls(index, table.features, {"heap_factor": heap_factor, "query_features": query_features})

    @classmethod
    def open(cls, folder: Path, table: Table, settings: Mapping[str, Any], files: Mapping[str, Entry]) -> "Seismic":
        """Open what `store` wrote, after checking its hash: Seismic trusts what it reads."""
        seismic = _seismic()
        _check_settings(settings.get("heap_factor"), query_features=settings.get("query_features"))
        path = checked_content(folder, files["seismic"])
        variant = "LV" if table.features >= _FEW_FEATURES else ""
        try:
            index = getattr(seismic, f"SeismicIndex{variant}").load(str(path))
        except Exception as error:
            raise damaged(path, f"Seismic cannot read it ({one_line(error)})") from error
        return cls(index, table.features, settings)

    def search(self, table: Table, queries: Lists, k: int, where: Where) -> Found:
        if not where.is_empty:
            raise InputError("engine seismic has no filters, expected engine exact or milvus")
        total, k = len(queries.starts) - 1, min(k, table.rows)
        filled = np.flatnonzero(np.diff(queries.starts))
        spans = [slice(*queries.starts[query : query + 2]) for query in filled]
        rows = np.full((total, k), -1)
        if len(filled):
            results = self._index.batch_search(
                queries_ids=filled.astype(self._tokens.dtype),
                query_components=[self._tokens[queries.places[span]] for span in spans],
                query_values=[queries.values[span].astype(np.float32) for span in spans],
                k=k,
                query_cut=self._settings["query_features"],
                heap_factor=self._settings["heap_factor"],
                num_threads=cores(),
            )
            for found in results:
                for place, (query, _, row) in enumerate(found):
                    rows[int(query), place] = int(row)
        scores = table.scores(queries, rows)
        order = np.lexsort((rows, -scores), axis=1)
        return Found(np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1))

    def add(self, first: int, codes: sp.csr_array, labels: Array | None) -> None:
        raise InputError("engine seismic cannot add rows, expected engine exact or milvus")

    def delete(self, rows: Array) -> None:
        raise InputError("engine seismic cannot delete rows, expected engine exact or milvus")

    def store(self, folder: Path) -> tuple[Mapping[str, Any], Mapping[str, Entry]]:
        temporary = temporary_path(folder)
        with os_errors_as_input_errors(folder), _silent():
            self._index.save(str(temporary))
            written = temporary.with_name(f"{temporary.name}.index.seismic")
        return self._settings, {"seismic": adopted(written, "seismic", "seismic")}


def _check_settings(heap_factor: Any, **counts: Any) -> None:
    for name, value in counts.items():
        if type(value) is not int or value < 1:
            raise InputError(f"{name} is {value!r}, expected a whole number, at least 1")
    if not isinstance(heap_factor, int | float) or not 0 < heap_factor <= 1:
        raise InputError(f"heap_factor is {heap_factor!r}, expected more than 0 and at most 1")


def _seismic() -> Any:
    return import_extra("seismic", "engine seismic", extra="seismic")


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress Seismic's progress messages: standard output is for the results of commands."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
