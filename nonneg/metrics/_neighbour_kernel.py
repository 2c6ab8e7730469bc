"""Cosines of sparse rows from inverted lists, and the counts that retrieval metrics take from them, compiled.

Rows have length 1. Scores are float64 sums in ascending order of features.
"""

from typing import Any

import numpy as np

from nonneg.compiled import Lists, compiled


@compiled
def _score(queries: Lists, query: int, inverted: Lists, scores: Any) -> None:
    scores[:] = 0.0
    for entry in range(queries.starts[query], queries.starts[query + 1]):
        feature, value = queries.places[entry], queries.values[entry]
        for posting in range(inverted.starts[feature], inverted.starts[feature + 1]):
            scores[inverted.places[posting]] += value * inverted.values[posting]


@compiled
def _largest(scores: Any, best: Any) -> None:
    """Fill `best` with the largest scores in descending order, by insertion: few scores get in if `best` is short."""
    best[:] = -np.inf
    for score in scores:
        if score > best[-1]:
            place = len(best) - 1
            while place > 0 and best[place - 1] < score:
                best[place] = best[place - 1]
                place -= 1
            best[place] = score


@compiled
def _compare(scores: Any, same: Any, level: float, tolerance: float) -> tuple[int, int, int, int]:
    """Return how many scores are above the level, how many of those are hits, and the same for scores tied with it."""
    nearer, nearer_hits, tied, tied_hits = 0, 0, 0, 0
    for i in range(len(scores)):
        if scores[i] > level + tolerance:
            nearer += 1
            nearer_hits += same[i]
        elif scores[i] >= level - tolerance:
            tied += 1
            tied_hits += same[i]
    return nearer, nearer_hits, tied, tied_hits


@compiled
def precision(
    rows: Lists, inverted: Lists, labels: Any, k: int, tolerance: float, first: int, last: int, found: Any
) -> None:
    """Fill `found` with the expected share of hits among the `k` nearest, for queries `first` to `last`."""
    scores, nearest = np.empty(len(labels)), np.empty(k)
    for query in range(first, last):
        _score(rows, query, inverted, scores)
        scores[query] = -np.inf
        _largest(scores, nearest)
        same = labels == labels[query]
        nearer, nearer_hits, tied, tied_hits = _compare(scores, same, nearest[-1], tolerance)
        found[query] = (nearer_hits + tied_hits / tied * (k - nearer)) / k


@compiled
def average_precision(
    rows: Lists, inverted: Lists, labels: Any, k: int, tolerance: float, first: int, last: int, found: Any
) -> None:
    """Fill `found` with the expected average precision of queries `first` to `last`; NaN without relevant samples."""
    relevant = np.bincount(labels)[labels] - 1
    scores, nearest = np.empty(len(labels)), np.empty(k)
    for query in range(first, last):
        if relevant[query] == 0:
            found[query] = np.nan
            continue
        _score(rows, query, inverted, scores)
        scores[query] = -np.inf
        _largest(scores, nearest)
        candidates = np.flatnonzero(scores >= nearest[-1] - tolerance)
        close, same = scores[candidates], labels[candidates] == labels[query]
        total = 0.0
        nearer, nearer_hits, tied, tied_hits = 0, 0, 0, 0
        for rank in range(k):
            if rank == 0 or nearest[rank] != nearest[rank - 1]:
                nearer, nearer_hits, tied, tied_hits = _compare(close, same, nearest[rank], tolerance)
            # As in `_retrieval`: the expected number of hits up to this rank, given a hit at it.
            others = (rank - nearer) * max(tied_hits - 1, 0) / max(tied - 1, 1)
            total += tied_hits / tied * (nearer_hits + 1 + others) / (rank + 1)
        found[query] = total / min(relevant[query], k)


@compiled
def recall(queries: Lists, inverted: Lists, k: int, tolerance: float, first: int, last: int, found: Any) -> None:
    """Fill `found` with the chance that a query's own row is among the `k` nearest, for queries `first` to `last`."""
    scores = np.empty(len(found))
    for query in range(first, last):
        _score(queries, query, inverted, scores)
        nearer, tied = 0, 0
        for score in scores:
            if score > scores[query] + tolerance:
                nearer += 1
            elif score >= scores[query] - tolerance:
                tied += 1
        found[query] = min(max((k - nearer) / tied, 0.0), 1.0)
