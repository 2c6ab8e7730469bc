"""What `nonneg convert` is given: vectors, and what is known of them, checked before any work is done."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from rich.console import Console

from nonneg.convert._rows import Rows, have_one_direction
from nonneg.errors import InputError
from nonneg.labels import label_numbers
from nonneg.modalities.images import open_source, thumbnails
from nonneg.tables import ids_within, open_vectors, read_column, split_name

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
    with_ids: bool = True,
) -> Inputs:
    """Open and check all of it; a CSV file of vectors may have its ids with it, which are read unless not wanted."""
    X = checked_vectors(vectors, progress)
    Y = None if pairs is None else checked_vectors(pairs, progress)
    if Y is not None and Y.shape != X.shape:
        raise InputError(f"{pairs} holds vectors of shape {Y.shape}, expected {X.shape}, as in {vectors}")
    numbers, names = (None, ()) if labels is None else label_numbers(read_column(labels, len(X), vectors), labels)
    known_at = ids_within(vectors) if ids is None and with_ids else ids
    known = None if known_at is None else _ids(known_at, read_column(known_at, len(X), vectors, as_text=True))
    shown = None if texts is None else [_text(v) for v in read_column(texts, len(X), vectors, as_text=True)]
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
    cpu = torch.device("cpu")
    first, is_one_direction = Rows(vectors[:1], device=cpu).take(torch.tensor([0]))[0], True
    least, most = np.full(vectors.shape[1], np.inf), np.full(vectors.shape[1], -np.inf)
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK]
        smallest, largest = block.min(1), block.max(1)
        _refuse(given, ~np.isfinite(smallest) | ~np.isfinite(largest), start, "NaN or infinite numbers", "finite ones")
        _refuse(given, (smallest == 0) & (largest == 0), start, "zeros alone", "a vector with a direction")
        least, most = np.minimum(least, block.min(0)), np.maximum(most, block.max(0))
        if is_one_direction:  # seldom beyond the first block
            is_one_direction = all(have_one_direction(units, first) for units in Rows(block, device=cpu).blocks(_BLOCK))
    if is_one_direction:
        raise InputError(
            f"{given}: all {len(vectors)} rows point in one direction, expected different ones: vectors are compared"
            " by direction"
        )
    constant = np.flatnonzero(least == most)
    if len(constant):
        some = ", ".join(map(str, constant[:5])) + (", …" if len(constant) > 5 else "")
        Console(stderr=True).print(
            f"{given}: {len(constant)} of {vectors.shape[1]} columns are the same in every row ({some}) and tell"
            " nothing apart",
            style="yellow",
            soft_wrap=True,
            markup=False,
            emoji=False,
            highlight=False,
        )
    return vectors


def _refuse(given: str, bad: Any, start: int, found: str, expected: str) -> None:
    rows = np.flatnonzero(bad) + start
    if len(rows):
        others = f" (and {len(rows) - 1} more nearby)" if len(rows) > 1 else ""
        raise InputError(f"{given}, row {rows[0]}{others}, holds {found}, expected {expected}")


def _text(value: Any) -> str:
    """A value as people write it; missing ones are empty."""
    if value is None or value != value:  # NaN
        return ""
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if is_whole else str(value)


def _ids(given: str, values: Any) -> list[str]:
    """Ids as text, all of them there and different."""
    ids = [_text(value) for value in values]
    seen: dict[str, int] = {}
    for row, value in enumerate(ids):
        if not value:
            raise InputError(f"{given}, row {row}, holds no id, expected one for each row")
        if value in seen:
            raise InputError(f"{given}: rows {seen[value]} and {row} have the same id {value!r}, expected no two alike")
        seen[value] = row
    return ids


def _pictures(media: str, rows: int, ids: Sequence[str] | None, vectors: str, progress: bool) -> Any:
    """An encoded image for each row."""
    if not Path(media).exists():
        raise InputError(f"media is {media!r}, where there is no folder, expected a folder of images")
    source = open_source(media, image_size=_SHOWN_SIDE, progress=progress)
    names = [str(name) for name in source.ids]
    if ids is None:
        order = np.array(_in_order(names, rows))
        if len(order) != rows:
            raise InputError(f"{media} holds {len(source)} images, expected {rows}, as many as {vectors} has rows")
    else:
        places = {Path(name).stem: i for i, name in enumerate(names)} | {n: i for i, n in enumerate(names)}
        places |= {Path(name).name: i for i, name in enumerate(names)}
        lacking = next((value for value in ids if value not in places), None)
        if lacking is not None:
            raise InputError(f"{media} holds no image named {lacking!r}, expected one for each id")
        order = np.array([places[value] for value in ids])
    parts = [thumbnails(source.images[order[start : start + 256]]) for start in range(0, rows, 256)]
    return pa.concat_arrays(parts)


def _in_order(names: Sequence[str], rows: int) -> list[int]:
    """Which image comes first, second, …: those named 0, 1, … if each row has one, else by name, numbers by value.

    Example:
        >>> _in_order(["1.png", "10.png", "2.png"], 3)
        [0, 2, 1]
    """
    stems = Counter(Path(name).stem for name in names)
    if all(stems[str(row)] == 1 for row in range(rows)):
        places = {Path(name).stem: i for i, name in enumerate(names)}
        return [places[str(row)] for row in range(rows)]
    return sorted(range(len(names)), key=lambda i: (_with_numbers(names[i]), names[i]))


def _with_numbers(name: str) -> list[str | int]:
    return [int(part) if i % 2 else part for i, part in enumerate(re.split("([0-9]+)", name))]


def _fingerprint(given: str) -> dict[str, Any]:
    there = split_name(given)[0].stat()
    return {"file": given, "size": there.st_size, "modified": there.st_mtime_ns}
