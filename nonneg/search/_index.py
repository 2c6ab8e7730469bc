"""`Index`: codes that can be searched, in memory or in a folder, by one of several engines."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from nonneg.durable import sync_folder, write_atomically
from nonneg.errors import InputError
from nonneg.features import Features, codes_key
from nonneg.payload import Array, single_writer
from nonneg.search._codes import query_lists, stored_codes
from nonneg.search._engine import Engine, Found, Where, engine_class, refuse_unknown
from nonneg.search._files import checked_content
from nonneg.search._meta import META, Meta, refuse_foreign, swept
from nonneg.search._part import Part
from nonneg.search._table import Table, open_table


@dataclass(frozen=True)
class Contribution:
    """What one feature adds to a score: the query's value times the sample's."""

    feature: int
    name: str | None
    value: float


class Index:
    """Rows of codes, searched by inner product.

    Made by `Index.build` or `Index.open`, not by hand. An index that was opened or saved lives in its folder: `add`
    and `delete` change it there, whole or not at all, and only one process may do so at a time. Those who opened it
    before go on seeing what they opened.

    Example:
        >>> features = Features(np.array([[3.0, 0.0, 1.0], [0.0, 2.0, 2.0], [1.0, 0.0, 0.0]]), ids=["a", "b", "c"])
        >>> index = Index.build(features)
        >>> found = index.query([1.0, 0.0, 0.5], k=2)
        >>> index.ids(found.rows[0]), found.scores[0].tolist()
        (['a', 'b'], [3.5, 1.0])
        >>> index.delete(["a"])
        >>> index.ids(index.query([1.0, 0.0, 0.5], k=2).rows[0])
        ['b', 'c']
    """

    def __init__(
        self, table: Table, engine: Engine, *, cosine: bool, fingerprint: str, label_names: tuple[str, ...]
    ) -> None:
        self._table, self._engine = table, engine
        self.cosine, self.fingerprint, self.label_names = cosine, fingerprint, label_names
        self._path: Path | None = None
        self._meta: Meta | None = None

    # Made

    @classmethod
    def build(
        cls,
        features: Features,
        engine: str = "exact",
        *,
        cosine: bool = False,
        quantised: bool = False,
        fingerprint: str | None = None,
        **settings: Any,
    ) -> Self:
        """Index the codes of features, which must not be negative.

        Args:
            features: what to index; their ids and labels come along.
            engine: exact, seismic or milvus.
            cosine: bring each row to length 1 first, for codes whose lengths mean nothing.
            quantised: keep values in 8 bits, at 5 instead of 8 bytes for each that is not zero; scores and
                contributions are those of the rounded values.
            fingerprint: of the features, if it is known; computed if left out.
            settings: of the engine.
        """
        known = engine_class(engine)
        if quantised and not known.keeps_lists:
            raise InputError(f"quantised is true with engine {engine}, which keeps values as they are, expected false")
        codes = stored_codes(features.codes, features.shape[1], cosine)
        ids = features.samples["id"] if "id" in features.samples.column_names else None
        part = Part.of(0, codes, ids, features.labels, known.keeps_lists, quantised)
        table = Table(features.shape[1], (part,), np.zeros(0, bool))
        refuse_unknown(engine, known.settings, settings)
        made = known.build(table, codes, **settings)
        own = codes_key(features) if fingerprint is None else fingerprint
        return cls(table, made, cosine=cosine, fingerprint=own, label_names=features.label_names)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a folder, memory-mapped where the engine can; it is checked, and refused if damaged."""
        folder = Path(path)
        while True:
            meta = Meta.read(folder)
            try:
                return cls._of(folder, meta)
            except InputError:
                if Meta.read(folder) == meta:  # else a writer has replaced what it names
                    raise

    @classmethod
    def _of(cls, folder: Path, meta: Meta) -> Self:
        known = engine_class(meta.engine)
        table = open_table(folder, meta.features, meta.parts, meta.deleted)
        if known.keeps_lists and any(part.lists is None for part in table.parts):
            raise InputError(f"{folder / META} is damaged: a part has no lists")
        engine = known.open(folder, table, meta.settings, meta.files)
        self = cls(table, engine, cosine=meta.cosine, fingerprint=meta.fingerprint, label_names=meta.label_names)
        self._path, self._meta = folder, meta
        return self

    # What it holds

    @property
    def engine(self) -> str:
        """The engine's name."""
        return self._engine.name

    @property
    def features(self) -> int:
        """How many."""
        return self._table.features

    def __len__(self) -> int:
        """Rows that can be found."""
        return self._table.present

    def __repr__(self) -> str:
        return f"Index({len(self):,} rows x {self.features:,} features, {self.engine})"

    def ids(self, rows: Iterable[int]) -> list[str]:
        """The id of each row; those below zero, which stand for nothing found, are left out."""
        return self._table.ids(np.array([row for row in rows if row >= 0], np.int64))

    def row(self, id: str) -> int:
        """The row of an id."""
        row = int(self._table.rows_of([id])[0])
        if row < 0:
            raise self._unknown(id)
        return row

    def _unknown(self, id: str) -> InputError:
        return InputError(f"id {id!r} is none of the {len(self):,} samples, expected one of them")

    def label(self, row: int) -> str | None:
        """The name of a row's label, or None."""
        label = int(self._table.labels(np.array([row]))[0])
        if label < 0:
            return None
        return self.label_names[label] if label < len(self.label_names) else str(label)

    def code(self, row: int) -> Array:
        """`(features,)` float64: what a row holds."""
        everything = np.arange(self.features)
        values = self._engine.values(self._table, np.array([row], np.int64), everything)
        return np.asarray(values[0])

    # What one can ask

    def query(self, codes: Any, k: int = 10, where: Where | Array | None = None) -> Found:
        """The rows with the largest inner products above zero, ties by row.

        Args:
            codes: `(queries, features)` or `(features,)`, sparse or dense, not negative.
            k: how many at most, for each.
            where: which rows may be hits: a `Where`, or a mask of `(rows,)` booleans, where `rows` counts all that
                ever came.
        """
        if type(k) is not int or k < 1:
            raise InputError(f"k is {k!r}, expected a whole number, at least 1")
        asked = where if isinstance(where, Where) else Where(rows=where)
        for feature in asked.without:
            if not 0 <= feature < self.features:
                raise InputError(f"without names feature {feature}, expected 0 to {self.features - 1}")
        return self._engine.search(self._table, query_lists(codes, self.features), k, asked)

    def contributions(
        self, code: Any, rows: Sequence[int], names: Mapping[int, str] | None = None
    ) -> list[tuple[Contribution, ...]]:
        """What each feature adds to the score of each row, in ascending order of features.

        Added up in that order, in float64, they are the row's score.
        """
        query = query_lists(code, self.features)
        known = np.asarray(rows, np.int64)
        products = query.values * self._engine.values(self._table, known, query.places)
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
        """Append rows: codes `(rows, features)`, ids (row numbers if left out) and labels (none if left out)."""
        own = stored_codes(codes, self.features, self.cosine)
        if not own.shape[0]:
            return

        def change(table: Table) -> Table:
            grown = table.added(own, ids, labels, self._engine.keeps_lists)
            self._engine.add(table.rows, own, grown.labels(np.arange(table.rows, grown.rows)))
            return grown

        self._changed(change)

    def delete(self, ids: Sequence[str]) -> None:
        """Take rows away; an id that is not there is refused, and then nothing is."""

        def change(table: Table) -> Table:
            rows = table.rows_of(ids)
            if (rows < 0).any():
                raise self._unknown(ids[int(np.argmax(rows < 0))])
            self._engine.delete(rows)
            return table.without(rows)

        self._changed(change)

    def _changed(self, change: Callable[[Table], Table]) -> None:
        if self._path is None:
            self._table = change(self._table)
            return
        with single_writer(self._path):
            meta = Meta.read(self._path)
            if meta != self._meta:  # another process has changed it since: its change stays
                if (meta.engine, meta.fingerprint, meta.cosine) != (self.engine, self.fingerprint, self.cosine):
                    raise InputError(f"{self._path} was replaced by another index since it was opened; open it again")
                self._engine.close()
                now = self._of(self._path, meta)
                self._table, self._engine = now._table, now._engine
            self._commit(self._path, change(self._table), anew=False)

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write to a folder. At any moment it holds the old index or the new one, whole."""
        folder = Path(path)
        refuse_foreign(folder, overwrite)
        with single_writer(folder):
            refuse_foreign(folder, overwrite)  # again: another writer may have been first
            meta = self._commit(folder, self._table, anew=True)
            # From now on out of the folder: memory that held the lists is free again.
            self._path, self._table = folder, open_table(folder, meta.features, meta.parts, meta.deleted)
        return folder

    def _commit(self, folder: Path, table: Table, anew: bool) -> Meta:
        try:
            table, deleted = table.stored(folder, anew)
            settings, files = self._engine.store(folder)
            parts = tuple({"rows": part.rows, "files": dict(part.files or {})} for part in table.parts)
            meta = Meta(
                self.engine,
                self.features,
                self.cosine,
                self.fingerprint,
                self.label_names,
                parts,
                deleted,
                dict(settings),
                dict(files),
            )
            sync_folder(folder)
            write_atomically(folder / META, meta.encoded())
            self._table, self._meta = table, Meta.read(folder)
            return self._meta
        finally:
            swept(folder)

    def verify(self) -> None:
        """Read every file of the folder and compare it with the hash it was saved with."""
        if self._path is not None and self._meta is not None:
            for entry in self._meta.entries():
                checked_content(self._path, entry)

    @property
    def size_on_disk(self) -> int:
        """Bytes of the files in its folder, those of a Milvus database aside; 0 before it is saved."""
        return 0 if self._meta is None else sum(entry["bytes"] for entry in self._meta.entries())

    def close(self) -> None:
        """Let go of what the engine holds open."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
