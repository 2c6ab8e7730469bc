"""`Index`: codes that can be searched, in memory or in a folder, by one of several engines."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from nonneg.durable import folder_lock
from nonneg.errors import InputError
from nonneg.features import Features, check_features, codes_key
from nonneg.manifest import META
from nonneg.payload import Array, checked_content
from nonneg.search._codes import query_lists, stored_codes
from nonneg.search._engine import Engine, Found, Where, check_settings, engine_class
from nonneg.search._meta import Meta
from nonneg.search._part import Part
from nonneg.search._table import Table, open_table


@dataclass(frozen=True)
class Contribution:
    """What one feature adds to a score: the query's value times the sample's."""

    feature: int
    name: str | None
    value: float


class Index:
    """Codes that are searched by their inner product with a query, or by cosine similarity (the default).

    Create one with `Index.build` or `Index.open`. An index that was opened or saved lives in its folder: `add` and
    `delete` change it there, completely or not at all, and only one process may do so at a time. Other readers keep
    the version that they opened.

    Example:
        >>> features = Features(np.array([[3.0, 0.0, 4.0], [0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]), ids=["a", "b", "c"])
        >>> index = Index.build(features)
        >>> found = index.query([1.0, 0.0, 0.0], k=2)
        >>> index.ids(found.rows[0]), found.scores[0].round(3).tolist()
        (['c', 'a'], [1.0, 0.6])
        >>> index.delete(["c"])
        >>> index.ids(index.query([1.0, 0.0, 0.0], k=2).rows[0])
        ['a']
    """

    def __init__(
        self,
        table: Table,
        engine: Engine,
        *,
        cosine: bool,
        fingerprint: str,
        label_names: tuple[str, ...],
        uri: str = "",
        path: Path | None = None,
        meta: Meta | None = None,
    ) -> None:
        self._table, self._engine, self._uri, self._path, self._meta = table, engine, uri, path, meta
        self.cosine, self.fingerprint, self.label_names = cosine, fingerprint, label_names

    @classmethod
    def build(
        cls,
        features: Features,
        engine: str = "exact",
        *,
        cosine: bool = True,
        quantised: bool = False,
        fingerprint: str | None = None,
        **settings: Any,
    ) -> Self:
        """Index the codes of features, which must be non-negative.

        Args:
            features: the samples to index, with their ids and labels.
            engine: exact, seismic or milvus.
            cosine: compare directions: codes are scaled to length 1. If false, codes are used as they are.
            quantised: store values in 8 bits, 5 instead of 8 bytes per active entry; scores and contributions are
                those of the rounded values.
            fingerprint: the features' fingerprint if it is known; computed by default.
            settings: settings of the engine.
        """
        check_features(features)
        kind = engine_class(engine)
        if quantised and not kind.keeps_lists:
            raise InputError(f"quantised is true with engine {engine}, which stores values unchanged, expected false")
        check_settings(kind, settings)
        codes = stored_codes(features.codes, features.shape[1], cosine)
        part = Part.of(0, codes, features, kind.keeps_lists, quantised)
        table = Table(features.shape[1], (part,), np.zeros(len(features), bool))
        return cls(
            table,
            kind.build(table, codes, **settings),
            cosine=cosine,
            fingerprint=codes_key(features) if fingerprint is None else fingerprint,
            label_names=features.label_names,
            uri=settings.get("uri", ""),
        )

    @classmethod
    def open(cls, path: str | Path, *, uri: str = "") -> Self:
        """Open a folder, memory-mapped if the engine supports it. Its files are checked; damage is an error.

        Args:
            path: the index's folder.
            uri: the address of the Milvus cluster that holds the codes; the environment variable MILVUS_URI by
                default. The address that the folder names is never used.
        """
        folder = Path(path)
        return Meta.read_consistently(folder, lambda meta: cls._opened(folder, meta, uri))

    @classmethod
    def _opened(cls, folder: Path, meta: Meta, uri: str) -> Self:
        kind = engine_class(meta.engine)
        table = open_table(folder, meta.features, meta.parts, meta.deleted)
        if kind.keeps_lists and any(part.lists is None for part in table.parts):
            raise InputError(f"{folder / META} is damaged: a part has no lists")
        return cls(
            table,
            kind.open(folder, table, {**meta.settings, "uri": uri}, meta.files),
            cosine=meta.cosine,
            fingerprint=meta.fingerprint,
            label_names=meta.label_names,
            uri=uri,
            path=folder,
            meta=meta,
        )

    # Contents

    @property
    def engine(self) -> str:
        """The engine's name."""
        return self._engine.name

    @property
    def features(self) -> int:
        """The number of features."""
        return self._table.features

    def __len__(self) -> int:
        return self._table.present

    def __repr__(self) -> str:
        return f"Index({len(self):,} rows x {self.features:,} features, {self.engine})"

    def ids(self, rows: Iterable[int]) -> list[str]:
        """Return the id of each row; negative rows, which fill up results, are skipped."""
        return self._table.ids(np.array([row for row in rows if row >= 0], np.int64))

    def row(self, id: str) -> int:
        """Return the row of an id."""
        row = int(self._table.rows_of([id])[0])
        if row < 0:
            raise self._unknown(id)
        return row

    def _unknown(self, id: str) -> InputError:
        return InputError(f"id {id!r} is not in the index, expected the id of one of its {len(self):,} samples")

    def label(self, row: int) -> str | None:
        """Return the name of a row's label, or None."""
        label = int(self._table.labels(np.array([row]))[0])
        if label < 0:
            return None
        return self.label_names[label] if label < len(self.label_names) else str(label)

    def code(self, row: int) -> Array:
        """Return the stored code `(features,)` of a row in float64."""
        if not 0 <= row < self._table.rows:
            raise InputError(f"row is {row}, expected a row of the index, from 0 to {self._table.rows - 1}")
        everything = np.arange(self.features)
        values = self._engine.values(self._table, np.array([row], np.int64), everything)
        return np.asarray(values[0])

    # Queries

    def query(self, codes: Any, k: int = 10, where: Where | Array | None = None) -> Found:
        """Return the rows with the largest inner products above 0, ties in order of rows.

        Args:
            codes: `(queries, features)` or `(features,)`, sparse or dense, non-negative.
            k: the largest number of rows per query.
            where: which rows may be returned: a `Where`, or a mask of `(rows,)` booleans, where `rows` includes
                deleted rows.
        """
        if type(k) is not int or k < 1:
            raise InputError(f"k is {k!r}, expected a whole number, at least 1")
        where = where if isinstance(where, Where) else Where(rows=where)
        for feature in (*where.without, *where.require):
            if not 0 <= feature < self.features:
                raise InputError(f"feature is {feature}, expected 0 to {self.features - 1} in without and require")
        return self._engine.search(self._table, query_lists(codes, self.features), k, where)

    def contributions(
        self, code: Any, rows: Sequence[int], names: Mapping[int, str] | None = None
    ) -> list[tuple[Contribution, ...]]:
        """Return what each feature adds to the score of each row, in ascending order of features.

        Added up in that order, in float64, they are the row's score.
        """
        query = query_lists(code, self.features)
        products = query.values * self._engine.values(self._table, np.asarray(rows, np.int64), query.places)
        return [
            tuple(
                Contribution(int(feature), (names or {}).get(int(feature)), float(value))
                for feature, value in zip(query.places, line, strict=True)
                if value > 0
            )
            for line in products
        ]

    # Changes

    def add(self, codes: Any, ids: Sequence[str] | None = None, labels: Any = None) -> None:
        """Append rows.

        Args:
            codes: `(rows, features)`, non-negative.
            ids: one per row; row numbers by default.
            labels: one per row, -1 for unlabelled; none by default.
        """
        new = stored_codes(codes, self.features, self.cosine)
        if not new.shape[0]:
            return
        kind = np.asarray(0 if labels is None else labels).dtype
        if kind.kind not in "iu":  # words would be numbered as if the index had no others
            raise InputError(f"labels are {kind}, expected integers")
        samples = Features(new, ids=ids, labels=labels)

        def change(table: Table) -> Table:
            grown = table.added(new, samples, self._engine.keeps_lists)
            self._engine.add(table.rows, new, grown.labels(np.arange(table.rows, grown.rows)))
            return grown

        self._change(change)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows by their ids. If an id is unknown, nothing is deleted."""

        def change(table: Table) -> Table:
            rows = table.rows_of(ids)
            if (rows < 0).any():
                raise self._unknown(ids[int(np.argmax(rows < 0))])
            self._engine.delete(rows)
            return table.without(rows)

        self._change(change)

    def _change(self, change: Callable[[Table], Table]) -> None:
        if self._path is None:
            self._table = change(self._table)
            return
        with folder_lock(self._path):
            meta = Meta.read(self._path)
            if meta != self._meta:  # another process has changed the index: keep its changes
                if (meta.engine, meta.fingerprint, meta.cosine) != (self.engine, self.fingerprint, self.cosine):
                    raise InputError(f"{self._path} was replaced by another index since it was opened; open it again")
                self._engine.close()
                now = self._opened(self._path, meta, self._uri)
                self._table, self._engine = now._table, now._engine
            self._commit(self._path, change(self._table), rewrite=False)

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write to a folder. At any moment the folder holds the complete old index or the complete new one."""
        folder = Path(path)
        Meta.check_writable(folder, overwrite)
        with folder_lock(folder):
            Meta.check_writable(folder, overwrite)  # again: another writer may have been first
            meta = self._commit(folder, self._table, rewrite=True)
            # From now on the lists are mapped from the folder, which frees the memory that held them.
            self._path, self._table = folder, open_table(folder, meta.features, meta.parts, meta.deleted)
        return folder

    def _commit(self, folder: Path, table: Table, rewrite: bool) -> Meta:
        try:
            table, deleted = table.stored(folder, rewrite)
            settings, files = self._engine.store(folder)
            meta = Meta(
                engine=self.engine,
                features=self.features,
                cosine=self.cosine,
                fingerprint=self.fingerprint,
                label_names=self.label_names,
                parts=tuple({"rows": part.rows, "files": dict(part.files or {})} for part in table.parts),
                deleted=deleted,
                settings=dict(settings),
                files=dict(files),
            )
            meta.commit(folder)
            self._table, self._meta = table, Meta.read(folder)
            return self._meta
        finally:
            Meta.remove_leftovers(folder)

    @property
    def size_on_disk(self) -> int:
        """Bytes of the files in its folder, without a Milvus database; 0 before it is saved."""
        return 0 if self._meta is None else sum(entry["bytes"] for entry in self._meta.entries())

    def close(self) -> None:
        """Release the engine's connections and temporary files."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def verify(path: str | Path) -> str:
    """Verify the integrity of an index's folder: read every file and compare it with the hash it was saved with.

    Data that Milvus stores, in a file or on a cluster, is not covered.

    Returns:
        A short description of the index.

    Raises:
        InputError: it names the first damaged file.
    """
    folder = Path(path)

    def check(meta: Meta) -> str:
        for entry in meta.entries():
            checked_content(folder, entry)
        table = open_table(folder, meta.features, meta.parts, meta.deleted)
        return f"Index({table.present:,} rows x {meta.features:,} features, {meta.engine})"

    return Meta.read_consistently(folder, check)
