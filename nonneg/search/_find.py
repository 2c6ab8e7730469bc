"""`find`: a query to hits, each with what made it one."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.messages import escaped
from nonneg.payload import Array
from nonneg.search._engine import Where
from nonneg.search._index import Contribution, Index
from nonneg.search._query import Feature, Query

_SHOWN = 3  # contributions of a hit
_EXCERPT = 80  # characters


@dataclass(frozen=True)
class Hit:
    """A sample that was found.

    Attributes:
        id: of the sample.
        row: its number in the index.
        score: its inner product with the query's code.
        label: the name of its label, or None.
        text: its text, or None.
        contributions: what each feature adds to the score, in ascending order of features; added up in that order
            they are the score.
    """

    id: str
    row: int
    score: float
    label: str | None
    text: str | None
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True)
class Hits:
    """Hits, best first. They print as a table with rich."""

    query: Query
    hits: tuple[Hit, ...]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain JSON."""
        return [asdict(hit) for hit in self.hits]

    def markdown(self) -> str:
        """The table in Markdown."""
        headings, lines = self._cells()
        rows = [headings, ["---"] * len(headings), *([c.replace("|", "\\|") for c in line] for line in lines)]
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def __rich__(self) -> Table:
        headings, lines = self._cells()
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in headings:
            table.add_column(heading, justify="right" if heading == "score" else "left")
        for line in lines:
            table.add_row(*(Text(cell) for cell in line))
        return table

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        columns = {
            "id": [hit.id for hit in self.hits],
            "label": [hit.label or "" for hit in self.hits],
            "score": [f"{hit.score:.4f}" for hit in self.hits],
            "because of": [_reasons(hit) for hit in self.hits],
            "text": [_excerpt(hit.text) for hit in self.hits],
        }
        shown = [name for name, cells in columns.items() if any(cells) or name in ("id", "score", "because of")]
        return shown, [
            [escaped(cell) for cell in line] for line in zip(*(columns[name] for name in shown), strict=True)
        ]


def find(
    features: Features,
    query: Query,
    index: Index | None = None,
    *,
    run: str | Path | None = None,
    sentence_model: str | None = None,
) -> Hits:
    """Answer a query.

    Args:
        features: to name features, labels and texts by.
        query: what to look for.
        index: of these features; an exact one in memory if left out.
        run: what made the features, to encode an image, a vector or a text with.
        sentence_model: the sentence-transformers model that made the vectors, for a text.

    Example:
        >>> codes = np.array([[3.0, 0.0, 1.0], [0.0, 2.0, 2.0], [1.0, 0.0, 0.0]])
        >>> features = Features(codes, ids=["a", "b", "c"], names={0: "wheels"})
        >>> hits = find(features, Query(features=(("wheels", 1.0),), without=(2,)))
        >>> [(hit.id, hit.score, hit.contributions[0].name) for hit in hits]
        [('c', 1.0, 'wheels')]
    """
    index = Index.build(features, fingerprint="") if index is None else index  # never saved, never compared
    if index.features != features.shape[1]:
        raise InputError(
            f"the index has {index.features} features, expected {features.shape[1]}: it is of other features"
        )
    named = [index.row(id) for id in (*query.like, *query.minus)]
    code = np.zeros(index.features)
    for place, row in enumerate(named):
        code += _unit(index.code(row)) * (1 if place < len(query.like) else -1)
    for feature, weight in query.features:
        code[feature_number(features, feature)] += weight
    for kind, given in query.inputs.items():
        from nonneg.search._encode import encoded  # torch is slow to load

        code += _unit(encoded(features, kind, given, run, sentence_model).toarray()[0].astype(np.float64))
    code = np.maximum(code, 0)
    if not code.any():
        raise InputError("nothing is left of the query: no feature is above zero, expected one or more")
    without = tuple(feature_number(features, feature) for feature in query.without)
    labels = None if query.label is None else (label_number(index, query.label),)
    found = index.query(code, query.k + len(named), Where(labels=labels, without=without))
    rows = [int(row) for row in found.rows[0] if row >= 0 and row not in named][: query.k]
    return Hits(query, _hits(features, index, code, rows))


def feature_number(features: Features, given: Feature) -> int:
    """The number of a feature, from its number or its name."""
    if isinstance(given, int):
        if not 0 <= given < features.shape[1]:
            raise InputError(f"feature is {given}, expected 0 to {features.shape[1] - 1}, or a name")
        return given
    found = [feature for feature, name in features.names.items() if name == given]
    if len(found) != 1:
        state = "is the name of no feature" if not found else f"is the name of features {', '.join(map(str, found))}"
        raise InputError(f"{given!r} {state}, expected the name of one, or a number from 0 to {features.shape[1] - 1}")
    return found[0]


def label_number(index: Index, given: str) -> int:
    """The number of a label, from its name, or its number where labels have no names."""
    if given in index.label_names:
        return index.label_names.index(given)
    if not index.label_names and given.isdecimal():
        return int(given)
    expected = f"one of {', '.join(index.label_names)}" if index.label_names else "a whole number"
    raise InputError(f"label is {given!r}, expected {expected}")


def _hits(features: Features, index: Index, code: Array, rows: list[int]) -> tuple[Hit, ...]:
    hits = []
    ids = index.ids(rows)
    for id, row, parts in zip(ids, rows, index.contributions(code, rows, features.names), strict=True):
        score = 0.0
        for part in parts:  # in this order: what sum() does depends on the version of Python
            score += part.value
        text = features.text(row) if row < len(features) else None
        hits.append(Hit(id, row, score, index.label(row), text, parts))
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.row)))


def _unit(code: Array) -> Array:
    length = np.sqrt(np.square(code).sum())
    return code / length if length else code


def _reasons(hit: Hit) -> str:
    largest = sorted(hit.contributions, key=lambda part: -part.value)
    told = [f"{part.name or part.feature}: {part.value:.3f}" for part in largest[:_SHOWN]]
    return "; ".join([*told, *([f"{len(largest) - _SHOWN} more"] if len(largest) > _SHOWN else [])])


def _excerpt(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= _EXCERPT else f"{line[: _EXCERPT - 1]}…"
