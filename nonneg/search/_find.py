"""`find`: answer a query with hits, each with what every feature added to its score."""

import os
import re
import shlex
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from nonneg.codes import unit_rows
from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.layout import markdown_table, rich_table
from nonneg.messages import escaped
from nonneg.naming import guessed_names, marked
from nonneg.payload import Array
from nonneg.search._encoder import Encoder, encoder_for, recorded_sentence_model
from nonneg.search._engine import Where
from nonneg.search._index import Contribution, Index
from nonneg.search._query import Feature, Query, numbered

_SHOWN = 3  # contributions per hit in a table
_CANDIDATES = 8  # features or labels that an error offers
_EXCERPT = 80  # characters of a text in a table


@dataclass(frozen=True)
class Hit:
    """A sample that a query found.

    Attributes:
        id: the sample's id.
        row: its row in the index.
        score: the inner product of the query and its code.
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
    """The hits of a query, best first. With rich they print as a table.

    Attributes:
        query: the query.
        hits: the hits.
        guesses: features whose suggested name is a guess; the table marks it with a question mark.
    """

    query: Query
    hits: tuple[Hit, ...]
    guesses: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the hits as plain JSON."""
        return [asdict(hit) for hit in self.hits]

    def markdown(self) -> str:
        """Return the hits as a table in Markdown."""
        return markdown_table(*self._cells()) + "\n"

    def __rich__(self) -> Table:
        headings, lines, left = self._cells()
        return rich_table(headings, (map(Text, line) for line in lines), left)

    def _cells(self) -> tuple[list[str], list[list[str]], list[int]]:
        """Return headings, rows, and the columns that are aligned left."""
        columns = {
            "id": [hit.id for hit in self.hits],
            "label": [hit.label or "" for hit in self.hits],
            "score": [f"{hit.score:.4f}" for hit in self.hits],
            "because of": [_reasons(hit, self.guesses) for hit in self.hits],
            "text": [_excerpt(hit.text) for hit in self.hits],
        }
        shown = [name for name, cells in columns.items() if any(cells) or name in ("id", "score", "because of")]
        lines = [list(map(escaped, line)) for line in zip(*(columns[name] for name in shown), strict=True)]
        return shown, lines, [column for column, name in enumerate(shown) if name != "score"]


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
        features: the features, which provide names, labels and texts.
        query: what to search for.
        index: an index of these features that ranks as the query asks (`cosine`); by default, an exact one is built
            in memory.
        run: the run that made the features, to encode a new image, vector, text or other sample.
        sentence_model: the sentence-transformers model that made the vectors, for a text.

    Example:
        >>> codes = np.array([[3.0, 0.0, 1.0], [0.0, 2.0, 2.0], [1.0, 0.0, 0.0]])
        >>> features = Features(codes, ids=["a", "b", "c"], names={0: "wheels"})
        >>> hits = find(features, Query(features=(("wheels", 1.0),), without=(2,)))
        >>> [(hit.id, hit.score, hit.contributions[0].name) for hit in hits]
        [('c', 1.0, 'wheels')]
    """
    if index is None:
        index = Index.build(features, cosine=query.cosine, fingerprint="")  # never saved, never compared
    if index.features != features.shape[1]:
        raise InputError(f"the index has {index.features} features, expected {features.shape[1]}, as the features have")
    if index.cosine != query.cosine:
        raise InputError(
            f"cosine is {query.cosine} in the query and {index.cosine} in the index, expected the same in both"
        )
    named = [index.row(id) for id in (*query.like, *query.minus)]
    code = np.zeros(index.features)
    for place, row in enumerate(named):
        code += unit_rows(index.code(row)[None])[0] * (1 if place < len(query.like) else -1)
    for feature, weight in query.features:
        code[feature_number(features, feature)] += weight
    for kind, given in query.inputs.items():
        # Path.is_file raises an error for a long text.
        is_text = kind == "text" or (kind == "sample" and not os.path.isfile(str(given)))  # noqa: PTH113
        encoder = _encoder(features, kind, run, sentence_model if kind in ("text", "sample") else None, is_text)
        code += unit_rows(encoder.codes(given)).toarray()[0]
    code = np.maximum(code, 0)
    if not code.any():
        raise InputError("all query weights are zero or negative, expected at least one above zero")
    without, require = (tuple(feature_number(features, f) for f in some) for some in (query.without, query.require))
    labels = None if query.label is None else (label_number(index, query.label),)
    found = index.query(code, query.k + len(named), Where(labels, without, require))
    rows = [int(row) for row in found.rows[0] if row >= 0 and row not in named][: query.k]
    return Hits(query, _hits(features, index, code, rows), frozenset(guessed_names(features)))


def _encoder(
    features: Features, kind: str, run: str | Path | None, sentence_model: str | None, is_text: bool
) -> Encoder:
    if run is None:
        raise InputError(f"{kind} is given without a run to encode it, expected the run that made the features")
    encoder = encoder_for(features, run, sentence_model, kind, use_recorded=is_text)
    if kind not in (encoder.kind, "sample"):
        recorded = recorded_sentence_model(features)
        if kind == "text" and encoder.kind == "vector":
            if recorded is None:
                raise InputError("--text needs the sentence model that made the vectors: add --sentence-model NAME")
            # A folder may have come with the features, and its code would be run.
            is_folder = os.path.exists(recorded)  # noqa: PTH110 (Path's method raises for a long name)
            why = "a folder, which is used only if it is given" if is_folder else "which is not on this machine"
            add = f"add --sentence-model {shlex.quote(recorded)}{'' if is_folder else ' to download it'}"
            raise InputError(f"the features record the sentence model {recorded}, {why}; {add}")
        name = f" (the features record {recorded})" if recorded else ""
        hint = f", or a text and its sentence model{name}" if encoder.kind == "vector" else ""
        raise InputError(f"{kind} is given, but {run} encodes a new {encoder.kind}, expected one{hint}")
    return encoder


def feature_number(features: Features, given: Feature) -> int:
    """Return the number of a feature that is given by its number or its name."""
    most = features.shape[1] - 1
    if isinstance(given, int):
        if not 0 <= given <= most:
            raise InputError(f"feature is {given}, expected 0 to {most}, or a name")
        return given
    found = named_features(features, given)
    if len(found) != 1:
        guesses = guessed_names(features)
        shown = [(feature, marked(features.titles[feature], feature in guesses)) for feature in found[:_CANDIDATES]]
        names = _first([f"{feature} ({title})" for feature, title in shown], len(found))
        state = f"is part of the names of features {names}" if found else "is in no feature's name"
        raise InputError(f"feature {given!r} {state}, expected the name of one feature, or a number from 0 to {most}")
    return found[0]


def named_features(features: Features, given: str) -> list[int]:
    """Return the features with this name; if there are none, those whose names have a word that begins with each word.

    Names given by people and suggested names count alike; capitals and question marks do not matter. The strongest
    feature comes first.

    Example:
        >>> features = Features(np.eye(4), names={0: "Oil prices", 1: "oil price", 2: "turmoil", 3: "oil"})
        >>> named_features(features, "oil"), named_features(features, "OIL p"), named_features(features, "gold")
        ([3], [0, 1], [])
    """
    titles = {feature: title.lower() for feature, title in features.titles.items()}
    exact = [feature for feature, title in features.titles.items() if title == given]
    plain = given.strip().removesuffix("?").lower()  # tables mark guesses by a question mark
    exact = exact or [feature for feature, title in titles.items() if title.removesuffix("?") == plain]
    words = [re.compile(rf"(?<!\w){re.escape(word)}") for word in re.findall(r"[^\s,?]+", given.lower())]
    found = exact or [feature for feature, title in titles.items() if words and all(w.search(title) for w in words)]
    return sorted(found, key=lambda feature: (-abs(features.expected_activation[feature]), feature))


def label_number(index: Index, given: str) -> int:
    """Return the number of a label that is given by its name, or by its number if labels have no names."""
    if given in index.label_names:
        return index.label_names.index(given)
    number = numbered(given)
    if not index.label_names and isinstance(number, int):
        return number
    names = _first(index.label_names[:_CANDIDATES], len(index.label_names))
    raise InputError(f"label is {given!r}, expected {f'one of {names}' if names else 'a whole number'}")


def _first(names: Sequence[str], total: int) -> str:
    """List the first of some names, and say how many more there are."""
    return ", ".join(names) + (f" and {total - len(names)} more" if total > len(names) else "")


def _hits(features: Features, index: Index, code: Array, rows: list[int]) -> tuple[Hit, ...]:
    hits = []
    ids = index.ids(rows)
    for id, row, parts in zip(ids, rows, index.contributions(code, rows, features.titles), strict=True):
        score = 0.0
        for part in parts:  # in this order, because the rounding of sum() depends on the version of Python
            score += part.value
        text = features.text(row) if row < len(features) else None
        hits.append(Hit(id, row, score, index.label(row), text, parts))
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.row)))


def _reasons(hit: Hit, guesses: Container[int]) -> str:
    largest = sorted(hit.contributions, key=lambda part: -part.value)
    titles = [marked(part.name, part.feature in guesses) if part.name else part.feature for part in largest[:_SHOWN]]
    shown = [f"{title}: {part.value:.3f}" for title, part in zip(titles, largest, strict=False)]
    return "; ".join([*shown, *([f"{len(largest) - _SHOWN} more"] if len(largest) > _SHOWN else [])])


def _excerpt(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= _EXCERPT else f"{line[: _EXCERPT - 1]}…"
