"""Compiled scoring by inverted lists. Import it on first use: numba takes half a second to load.

A score is a sum in float64, in ascending order of features, and so equals the sum that a plain loop computes.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from nonneg import processes
from nonneg.compiled import Lists, compiled

_BLOCK = 256  # rows that are compared one by one only if the best of them is good enough
_QUERIES = 8  # queries that a thread takes at a time
_idle: list[Any] = []  # arrays of zeros that no thread is using


class InvertedLists(NamedTuple):
    """For each feature, the rows it is active on, ascending, and its values there divided by the feature's scale."""

    starts: Any
    places: Any
    values: Any
    scales: Any


class Segment(NamedTuple):
    """The rows from `first` on, their inverted lists, and which of them may be returned (empty: all)."""

    first: int
    rows: int
    lists: InvertedLists
    allowed: Any


@compiled
def _keep_best(scores: Any, rows: Any, size: int) -> int:
    """Sort the first `size` rows, best first, and drop all beyond half of the arrays; return how many are left.

    The sort is stable: of equal scores the earlier row comes first.
    """
    order = np.argsort(-scores[:size], kind="mergesort")[: len(scores) // 2]
    scores[: len(order)], rows[: len(order)] = scores[order], rows[order]
    return len(order)


@compiled
def _largest(scores: Any) -> float:
    largest = 0.0
    for score in scores:
        largest = max(largest, score)
    return largest


@compiled
def _best(
    queries: Lists,
    lists: InvertedLists,
    allowed: Any,
    first_row: int,
    first: int,
    last: int,
    scratch: Any,
    best_scores: Any,
    best_rows: Any,
    found: Any,
) -> None:
    """Update the best rows of queries `first` to `last - 1` with the rows of one segment.

    `best_scores` and `best_rows` are twice as wide as the number of rows wanted: they are sorted only when they are
    full. `scratch` holds one zero per row, before and after. Rows are visited in ascending order, so a later row must
    score more than the worst one kept. `allowed` marks the rows that may be returned; if it is empty, all may.
    """
    samples, k = len(scratch), best_scores.shape[1] // 2
    for query in range(first, last):
        for entry in range(queries.starts[query], queries.starts[query + 1]):
            feature = queries.places[entry]
            value = queries.values[entry] * lists.scales[feature]  # exact: scales are powers of two
            for place in range(lists.starts[feature], lists.starts[feature + 1]):
                scratch[lists.places[place]] += value * lists.values[place]
        scores, rows, size = best_scores[query], best_rows[query], found[query]
        least = scores[k - 1] if size == k else 0.0
        for block in range(0, samples, _BLOCK):
            end = min(block + _BLOCK, samples)
            if _largest(scratch[block:end]) <= least:
                continue
            for row in range(block, end):
                score = scratch[row]
                if score <= least or (len(allowed) > 0 and not allowed[row]):
                    continue
                scores[size], rows[size] = score, first_row + row
                size += 1
                if size == 2 * k:
                    size = _keep_best(scores, rows, size)
                    least = scores[k - 1]
        found[query] = _keep_best(scores, rows, size)
        scratch[:] = 0.0


@compiled
def _value(lists: InvertedLists, feature: int, row: int) -> float:
    """Return the value of a row in a feature's list, by binary search."""
    low, high = lists.starts[feature], lists.starts[feature + 1]
    stop = high
    while low < high:
        middle = (low + high) // 2
        if lists.places[middle] < row:
            low = middle + 1
        else:
            high = middle
    return lists.values[low] * lists.scales[feature] if low < stop and lists.places[low] == row else 0.0


@compiled
def values_at(lists: InvertedLists, rows: Any, features: Any, values: Any) -> None:
    """Fill `values` `(rows, features)` from the lists."""
    for line in range(len(rows)):
        for column in range(len(features)):
            values[line, column] = _value(lists, features[column], rows[line])


@compiled
def scores_at(queries: Lists, lists: InvertedLists, first: int, samples: int, rows: Any, scores: Any) -> None:
    """Fill `scores` `(queries, k)` for those of `rows` that are in this segment."""
    for query in range(len(rows)):
        for place in range(rows.shape[1]):
            row = rows[query, place] - first
            if row < 0 or row >= samples:
                continue
            score = 0.0
            for entry in range(queries.starts[query], queries.starts[query + 1]):
                score += queries.values[entry] * _value(lists, queries.places[entry], row)
            scores[query, place] = score


def best(queries: Lists, segments: Sequence[Segment], k: int) -> tuple[Any, Any]:
    """Return the `k` best rows of each query and their scores, best first, ties in order of rows.

    Places beyond the last row with a score above 0 hold row -1 and score 0.

    Args:
        queries: the features of each query, ascending, and their values in float64.
        segments: the rows to search, in ascending order.
        k: the number of rows, at least 1.
    """
    total = len(queries.starts) - 1
    scores, rows = np.zeros((total, 2 * k)), np.full((total, 2 * k), -1)
    found = np.zeros(total, np.int64)

    def work(first: int) -> None:
        scratch = _borrowed(max(segment.rows for segment in segments))
        last = min(first + _QUERIES, total)
        for first_row, samples, lists, allowed in segments:
            _best(queries, lists, allowed, first_row, first, last, scratch[:samples], scores, rows, found)
        _idle.append(scratch)

    with ThreadPoolExecutor(cores()) as pool:
        # A pool starts its threads on first use: a few queries do not need them.
        each = map if total <= _QUERIES else pool.map
        list(each(work, range(0, total, _QUERIES)))
    return rows[:, :k], scores[:, :k]


def _borrowed(rows: int) -> Any:
    """Return zeros to sum scores in. They are reused: allocating them would take longer than a query."""
    try:
        scratch = _idle.pop()
    except IndexError:  # other threads are using all of them
        return np.zeros(rows)
    return scratch if len(scratch) >= rows else np.zeros(rows)


def cores() -> int:
    """Return OMP_NUM_THREADS if it is set, otherwise the number of cores that this process may use."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given):
        return int(given)
    return processes.cores()
