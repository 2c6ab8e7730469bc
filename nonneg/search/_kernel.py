"""Scores by inverted lists and the best of them, compiled. Imported on first use: numba takes half a second to load.

A score is a sum in float64, in ascending order of features: the very sum that a plain loop makes.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from nonneg import processes
from nonneg.compiled import Lists, compiled

_BLOCK = 256  # rows that are looked at one by one only if one of them is good enough
_QUERIES = 8  # that a thread takes at a time
_idle: list[Any] = []  # zeros that no thread uses now


class Holders(NamedTuple):
    """Of each feature the rows that hold it, ascending, and their values in units of the feature's scale."""

    starts: Any
    places: Any
    values: Any
    scales: Any


class Segment(NamedTuple):
    """Rows `first` and on, the lists of who of them holds a feature, and which of them may be hits (empty: all)."""

    first: int
    rows: int
    holders: Holders
    allowed: Any


@compiled
def _is_worse(score: float, row: int, other_score: float, other_row: int) -> bool:
    """Of two with the same score, the later row is the worse one."""
    return score < other_score or (score == other_score and row > other_row)


@compiled
def _rise(scores: Any, rows: Any, place: int) -> None:
    """Let the entry at `place` of a heap rise until the one above it is worse."""
    while place > 0:
        above = (place - 1) // 2
        if not _is_worse(scores[place], rows[place], scores[above], rows[above]):
            break
        scores[place], scores[above] = scores[above], scores[place]
        rows[place], rows[above] = rows[above], rows[place]
        place = above


@compiled
def _sink(scores: Any, rows: Any, size: int) -> None:
    """Let the first entry of a heap of `size` sink until none below it is worse."""
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _is_worse(scores[below + 1], rows[below + 1], scores[below], rows[below]):
            below += 1
        if not _is_worse(scores[below], rows[below], scores[place], rows[place]):
            break
        scores[place], scores[below] = scores[below], scores[place]
        rows[place], rows[below] = rows[below], rows[place]
        place = below


@compiled
def _largest(scores: Any) -> float:
    largest = 0.0
    for score in scores:
        largest = max(largest, score)
    return largest


@compiled
def _best(
    queries: Lists,
    holders: Holders,
    allowed: Any,
    first_row: int,
    first: int,
    last: int,
    scratch: Any,
    best_scores: Any,
    best_rows: Any,
    found: Any,
) -> None:
    """Offer the rows of one segment to the heaps of the best, of queries `first` to `last`.

    `scratch` holds a zero for each row, before and after. Rows come in ascending order: a later one must score
    more than the worst that is kept. `allowed` says which rows may be hits; it is empty where all may.
    """
    samples, k = len(scratch), best_scores.shape[1]
    for query in range(first, last):
        for entry in range(queries.starts[query], queries.starts[query + 1]):
            feature = queries.places[entry]
            value = queries.values[entry] * holders.scales[feature]  # exact: scales are powers of two
            for held in range(holders.starts[feature], holders.starts[feature + 1]):
                scratch[holders.places[held]] += value * holders.values[held]
        scores, rows, size = best_scores[query], best_rows[query], found[query]
        least = scores[0] if size == k else 0.0
        for block in range(0, samples, _BLOCK):
            end = min(block + _BLOCK, samples)
            if _largest(scratch[block:end]) <= least:
                continue
            for row in range(block, end):
                score = scratch[row]
                if score <= least or (len(allowed) > 0 and not allowed[row]):
                    continue
                if size < k:
                    scores[size], rows[size] = score, first_row + row
                    _rise(scores, rows, size)
                    size += 1
                else:
                    scores[0], rows[0] = score, first_row + row
                    _sink(scores, rows, size)
                if size == k:
                    least = scores[0]
        found[query] = size
        scratch[:] = 0.0


@compiled
def _in_order(best_scores: Any, best_rows: Any, found: Any, first: int, last: int) -> None:
    """Sort the heaps: best first, and of equal ones the earlier row."""
    for query in range(first, last):
        scores, rows = best_scores[query], best_rows[query]
        for size in range(found[query] - 1, 0, -1):
            scores[0], scores[size] = scores[size], scores[0]
            rows[0], rows[size] = rows[size], rows[0]
            _sink(scores, rows, size)


@compiled
def _value(holders: Holders, feature: int, row: int) -> float:
    """What a list of ascending rows holds for this one."""
    low, high = holders.starts[feature], holders.starts[feature + 1]
    stop = high
    while low < high:
        middle = (low + high) // 2
        if holders.places[middle] < row:
            low = middle + 1
        else:
            high = middle
    return holders.values[low] * holders.scales[feature] if low < stop and holders.places[low] == row else 0.0


@compiled
def values_at(holders: Holders, rows: Any, features: Any, values: Any) -> None:
    """Fill `values` `(rows, features)` with what the lists hold."""
    for line in range(len(rows)):
        for column in range(len(features)):
            values[line, column] = _value(holders, features[column], rows[line])


@compiled
def scores_at(queries: Lists, holders: Holders, first: int, samples: int, rows: Any, scores: Any) -> None:
    """Fill `scores` `(queries, k)` for those of `rows` that lie in this segment."""
    for query in range(len(rows)):
        for place in range(rows.shape[1]):
            row = rows[query, place] - first
            if row < 0 or row >= samples:
                continue
            score = 0.0
            for entry in range(queries.starts[query], queries.starts[query + 1]):
                score += queries.values[entry] * _value(holders, queries.places[entry], row)
            scores[query, place] = score


def best(queries: Lists, segments: Sequence[Segment], k: int, threads: int | None = None) -> tuple[Any, Any]:
    """The `k` best rows of each query and their scores, best first, ties by row; -1 and 0 where there are no more.

    Args:
        queries: of each query its features, ascending, and their values in float64.
        segments: where to look, in ascending order of rows.
        k: how many, at least 1.
        threads: how many; None is one for each core.
    """
    total = len(queries.starts) - 1
    scores, rows = np.zeros((total, k)), np.full((total, k), -1)
    found = np.zeros(total, np.int64)

    def work(first: int, last: int) -> None:
        scratch = _borrowed(max(segment.rows for segment in segments))
        for first_row, samples, holders, allowed in segments:
            _best(queries, holders, allowed, first_row, first, last, scratch[:samples], scores, rows, found)
        _in_order(scores, rows, found, first, last)
        _idle.append(scratch)

    threads = min(threads or cores(), -(-total // _QUERIES))
    if threads <= 1:
        work(0, total)
        return rows, scores
    blocks = [(first, min(first + _QUERIES, total)) for first in range(0, total, _QUERIES)]
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, *block) for block in blocks]:
            done.result()
    return rows, scores


def _borrowed(rows: int) -> Any:
    """Zeros to add scores up in. Fresh memory costs more than a query does, so it is used again."""
    try:
        scratch = _idle.pop()
    except IndexError:  # all are in use by other threads
        return np.zeros(rows)
    return scratch if len(scratch) >= rows else np.zeros(rows)


def cores() -> int:
    """Those this process may use, or as many as OMP_NUM_THREADS says."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given):
        return int(given)
    return processes.cores()
