"""What `nonneg convert` is given: vectors, and what is known of them, checked before any work is done."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import Console

from nonneg.data import open_source, open_vectors, read_column, split_name
from nonneg.errors import InputError
from nonneg.models import thumbnails

_BLOCK = 16_384
_SHOWN_SIDE = 128


@dataclass(frozen=True)
class Inputs:
    """Vectors `(rows, width)` and what belongs to each row; None where nothing was given."""

    vectors: Any
    pairs: Any
    labels: npt.NDArray[np.int64] | None
    label_names: tuple[str, ...]
    ids: Sequence[str] | None
    texts: Sequence[str] | None
    media: Any
    described: dict[str, Any]


def open_inputs(
    vectors: str,
    pairs: str | None = None,
    labels: str | None = None,
    ids: str | None = None,
    texts: str | None = None,
    media: str | None = None,
    progress: bool = True,
) -> Inputs:
    """Open and check all of it."""
    X = checked_vectors(vectors, progress)
    Y = None if pairs is None else checked_vectors(pairs, progress)
    if Y is not None and Y.shape != X.shape:
        raise InputError(f"{pairs} holds vectors of shape {Y.shape}, expected {X.shape}, as in {vectors}")
    columns = {
        name: None if given is None else _column(given, len(X), vectors)
        for name, given in (("labels", labels), ("ids", ids), ("texts", texts))
    }
    numbers, names = (None, ()) if columns["labels"] is None else label_numbers(str(labels), columns["labels"])
    known = None if columns["ids"] is None else _different(str(ids), [str(value) for value in columns["ids"]])
    shown = None if columns["texts"] is None else ["" if v is None else str(v) for v in columns["texts"]]
    given = {"vectors": vectors, "pairs": pairs, "labels": labels, "ids": ids, "texts": texts, "media": media}
    return Inputs(
        X,
        Y,
        numbers,
        names,
        known,
        shown,
        None if media is None else _pictures(media, len(X), known, vectors, progress),
        {name: None if value is None else _fingerprint(value) for name, value in given.items()},
    )


def checked_vectors(given: str, progress: bool = True) -> Any:
    """Vectors that have a direction each, in a file.

    Raises:
        InputError: for rows with NaN, infinity or zeros alone, by their index.
    """
    vectors = open_vectors(given, progress)
    least, most = np.full(vectors.shape[1], np.inf), np.full(vectors.shape[1], -np.inf)
    for start in range(0, len(vectors), _BLOCK):
        block = np.asarray(vectors[start : start + _BLOCK], np.float32)
        _refuse(given, ~np.isfinite(block).all(1), start, "NaN or infinite numbers", "finite ones")
        _refuse(given, ~block.any(1), start, "zeros alone", "a vector with a direction")
        least, most = np.minimum(least, block.min(0)), np.maximum(most, block.max(0))
    constant = np.flatnonzero(least == most)
    if len(constant) == vectors.shape[1]:
        raise InputError(f"{given}: all {len(vectors)} rows are the same, expected different ones")
    if len(constant):
        some = ", ".join(map(str, constant[:5])) + (", …" if len(constant) > 5 else "")
        Console(stderr=True).print(
            f"{given}: {len(constant)} of {vectors.shape[1]} columns are the same in every row ({some}) and tell"
            " nothing apart",
            style="yellow",
            soft_wrap=True,
        )
    return vectors


def _refuse(given: str, bad: Any, start: int, found: str, expected: str) -> None:
    rows = np.flatnonzero(bad) + start
    if len(rows):
        others = f" (and {len(rows) - 1} more nearby)" if len(rows) > 1 else ""
        raise InputError(f"{given}, row {rows[0]}{others}, holds {found}, expected {expected}")


def _column(given: str, rows: int, vectors: str) -> Any:
    values = read_column(given)
    if len(values) != rows:
        raise InputError(f"{given} has {len(values)} rows, expected {rows}, as many as {vectors}")
    return values


def label_numbers(given: str, values: Any) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Labels as numbers from 0, and what they are called; missing ones and negative numbers are unlabelled."""
    values = np.asarray(values)
    if values.dtype.kind == "f":
        if np.any(np.isfinite(values) & (values != np.round(values))):
            raise InputError(f"{given} holds numbers with fractions, expected labels: whole numbers or words")
        missing = ~np.isfinite(values) | (values < 0)
        values = np.where(missing, -1, values).astype(np.int64)
    elif values.dtype.kind in "iub":
        missing = values < 0
    else:
        missing = np.array([value is None or value == "" for value in values])
        values = np.array(["" if gone else str(value) for value, gone in zip(values, missing, strict=True)])
    known = values[~missing]
    if not len(known):
        raise InputError(f"{given} holds no label, expected at least one")
    names = np.unique(known)
    numbers = np.full(len(values), -1, np.int64)
    numbers[~missing] = np.searchsorted(names, known)
    return numbers, tuple(map(str, names))


def _different(given: str, ids: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    for row, value in enumerate(ids):
        if value in seen:
            raise InputError(f"{given}: rows {seen[value]} and {row} have the same id {value!r}, expected no two alike")
        seen[value] = row
    return ids


def _pictures(media: str, rows: int, ids: Sequence[str] | None, vectors: str, progress: bool) -> Any:
    """An encoded image for each row."""
    source = open_source(media, image_size=_SHOWN_SIDE, progress=progress)
    if ids is None:
        if len(source) != rows:
            raise InputError(f"{media} holds {len(source)} images, expected {rows}, as many as {vectors} has rows")
        order = np.arange(rows)
    else:
        names = [str(name) for name in source.ids]
        places = {Path(name).stem: i for i, name in enumerate(names)} | {n: i for i, n in enumerate(names)}
        places |= {Path(name).name: i for i, name in enumerate(names)}
        lacking = next((value for value in ids if value not in places), None)
        if lacking is not None:
            raise InputError(f"{media} holds no image named {lacking!r}, expected one for each id")
        order = np.array([places[value] for value in ids])
    parts = [thumbnails(source.images[order[start : start + 256]]) for start in range(0, rows, 256)]
    return pa.concat_arrays(parts)


def _fingerprint(given: str) -> dict[str, Any]:
    there = split_name(given)[0].stat()
    return {"file": given, "size": there.st_size, "modified": there.st_mtime_ns}
