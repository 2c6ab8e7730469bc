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
def _sink(heap: Any, place: int) -> None:
    """Move the value at `place` down the heap until no value below it is smaller."""
    value = heap[place]
    while True:
        below = 2 * place + 1
        if below >= len(heap):
            break
        if below + 1 < len(heap) and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= value:
            break
        heap[place] = heap[below]
        place = below
    heap[place] = value


@compiled
def _largest(scores: Any, heap: Any) -> None:
    """Fill `heap` with the largest scores; the smallest of them comes first."""
    k = len(heap)
    heap[:] = scores[:k]
    for place in range(k // 2 - 1, -1, -1):
        _sink(heap, place)
    for score in scores[k:]:
        if score > heap[0]:
            heap[0] = score
            _sink(heap, 0)


@compiled
def precision(
    rows: Lists, inverted: Lists, labels: Any, k: int, tolerance: float, first: int, last: int, found: Any
) -> None:
    """Fill `found` with the expected share of hits among the `k` nearest, for queries `first` to `last`."""
    scores, heap = np.empty(len(labels)), np.empty(k)
    for query in range(first, last):
        _score(rows, query, inverted, scores)
        scores[query] = -np.inf
        _largest(scores, heap)
        least = heap[0] - tolerance
        nearer, nearer_hits, tied, tied_hits = 0, 0, 0, 0
        for other in range(len(labels)):
            if scores[other] >= least:
                hit = labels[other] == labels[query]
                if scores[other] > heap[0] + tolerance:
                    nearer += 1
                    nearer_hits += hit
                else:
                    tied += 1
                    tied_hits += hit
        found[query] = (nearer_hits + tied_hits / tied * (k - nearer)) / k


@compiled
def average_precision(
    rows: Lists, inverted: Lists, labels: Any, k: int, tolerance: float, first: int, last: int, found: Any
) -> None:
    """Fill `found` with the expected average precision of queries `first` to `last`; NaN without relevant samples."""
    samples = len(labels)
    relevant = np.bincount(labels)[labels] - 1
    scores, heap = np.empty(samples), np.empty(k)
    close, hits = np.empty(samples), np.empty(samples, np.int64)
    for query in range(first, last):
        if relevant[query] == 0:
            found[query] = np.nan
            continue
        _score(rows, query, inverted, scores)
        scores[query] = -np.inf
        _largest(scores, heap)
        candidates = 0
        for other in range(samples):
            if scores[other] >= heap[0] - tolerance:
                close[candidates] = scores[other]
                hits[candidates] = labels[other] == labels[query]
                candidates += 1
        nearest = np.sort(heap)[::-1]
        total = 0.0
        nearer, nearer_hits, tied, tied_hits = 0, 0, 0, 0
        for rank in range(k):
            if rank == 0 or nearest[rank] != nearest[rank - 1]:
                nearer, nearer_hits, tied, tied_hits = 0, 0, 0, 0
                for candidate in range(candidates):
                    if close[candidate] > nearest[rank] + tolerance:
                        nearer += 1
                        nearer_hits += hits[candidate]
                    elif close[candidate] >= nearest[rank] - tolerance:
                        tied += 1
                        tied_hits += hits[candidate]
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
