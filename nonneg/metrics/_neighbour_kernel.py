"""Cosines of sparse rows by lists of who holds a feature, and what the metrics of neighbours count in them.

Scores are sums in float64 in ascending order of features. Rows have length 1.
"""

from typing import Any

import numpy as np

from nonneg.compiled import Lists, compiled


@compiled
def _score(queries: Lists, query: int, holders: Lists, scores: Any) -> None:
    scores[:] = 0.0
    for entry in range(queries.starts[query], queries.starts[query + 1]):
        feature, value = queries.places[entry], queries.values[entry]
        for held in range(holders.starts[feature], holders.starts[feature + 1]):
            scores[holders.places[held]] += value * holders.values[held]


@compiled
def _sink(heap: Any, place: int) -> None:
    """Let the value at `place` sink until none below it is smaller."""
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
    """Fill `heap` with the largest scores, the least of them first."""
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
    rows: Lists, holders: Lists, labels: Any, k: int, tolerance: float, first: int, last: int, found: Any
) -> None:
    """Fill `found` with the share of hits expected among the `k` nearest, of queries `first` to `last`."""
    scores, heap = np.empty(len(labels)), np.empty(k)
    for query in range(first, last):
        _score(rows, query, holders, scores)
        scores[query] = -np.inf
        _largest(scores, heap)
        least = heap[0] - tolerance
        nearer, nearer_hits, level, level_hits = 0, 0, 0, 0
        for other in range(len(labels)):
            if scores[other] >= least:
                hit = labels[other] == labels[query]
                if scores[other] > heap[0] + tolerance:
                    nearer += 1
                    nearer_hits += hit
                else:
                    level += 1
                    level_hits += hit
        found[query] = (nearer_hits + level_hits / level * (k - nearer)) / k


@compiled
def average_precision(
    rows: Lists, holders: Lists, labels: Any, k: int, tolerance: float, first: int, last: int, found: Any
) -> None:
    """Fill `found` with the expected average precision of queries `first` to `last`; NaN where none is relevant."""
    samples = len(labels)
    relevant = np.bincount(labels)[labels] - 1
    scores, heap = np.empty(samples), np.empty(k)
    close, hits = np.empty(samples), np.empty(samples, np.int64)
    for query in range(first, last):
        if relevant[query] == 0:
            found[query] = np.nan
            continue
        _score(rows, query, holders, scores)
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
        nearer, nearer_hits, level, level_hits = 0, 0, 0, 0
        for rank in range(k):
            if rank == 0 or nearest[rank] != nearest[rank - 1]:
                nearer, nearer_hits, level, level_hits = 0, 0, 0, 0
                for candidate in range(candidates):
                    if close[candidate] > nearest[rank] + tolerance:
                        nearer += 1
                        nearer_hits += hits[candidate]
                    elif close[candidate] >= nearest[rank] - tolerance:
                        level += 1
                        level_hits += hits[candidate]
            # As in `_retrieval`: the hits expected up to this rank, given one at it.
            others = (rank - nearer) * max(level_hits - 1, 0) / max(level - 1, 1)
            total += level_hits / level * (nearer_hits + 1 + others) / (rank + 1)
        found[query] = total / min(relevant[query], k)


@compiled
def recall(queries: Lists, holders: Lists, k: int, tolerance: float, first: int, last: int, found: Any) -> None:
    """Fill `found` with the chance that a query's own row is among the `k` nearest, of queries `first` to `last`."""
    scores = np.empty(len(found))
    for query in range(first, last):
        _score(queries, query, holders, scores)
        nearer, level = 0, 0
        for score in scores:
            if score > scores[query] + tolerance:
                nearer += 1
            elif score >= scores[query] - tolerance:
                level += 1
        found[query] = min(max((k - nearer) / level, 0.0), 1.0)
