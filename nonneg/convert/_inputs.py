"""The input of `nonneg convert`: vectors with labels, ids, texts and images, checked before any work is done."""

import dataclasses
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nonneg.convert._rows import Rows, check_rows, have_one_direction
from nonneg.convert._text_vectors import SentenceModel
from nonneg.errors import InputError
from nonneg.labels import label_numbers
from nonneg.messages import counted
from nonneg.modalities.images import open_source
from nonneg.progress import print_line, progress_bar
from nonneg.tables import ids_within, open_vectors, read_column, split_name

_BLOCK = 16_384
_SHOWN_SIDE = 96  # pixels
_OF_ARRAYS = (".npz", ".safetensors")
_NUMBERS = re.compile(r"(?:[-+.,;\d\seE]|nan|inf)*", re.IGNORECASE)


@dataclass(frozen=True)
class Inputs:
    """Vectors `(rows, width)` and the data of each row; None for what was not given.

    Texts that a sentence model is to encode are in place of the vectors until `encoded`. `files` holds the given
    paths, and `contents` the size and time of change of each, by the name of the argument.
    """

    vectors: Any
    pairs: Any
    labels: npt.NDArray[np.int64] | None
    label_names: tuple[str, ...]
    ids: Sequence[str] | None
    texts: Sequence[str] | None
    pixels: Any
    files: dict[str, str | None]
    contents: dict[str, str]

    def encoded(self, model: SentenceModel | None, progress: bool = True) -> "Inputs":
        """Return the inputs with vectors in place of texts."""
        if model is None or not isinstance(self.vectors, list):
            return self
        vectors, pairs = (
            None if texts is None else _checked(str(self.files[name]), model.encode_once(texts, progress))
            for name, texts in (("vectors", self.vectors), ("pairs", self.pairs))
        )
        return dataclasses.replace(self, vectors=vectors, pairs=pairs)


def open_inputs(
    vectors: str,
    pairs: str | None = None,
    labels: str | None = None,
    ids: str | None = None,
    texts: str | None = None,
    media: str | None = None,
    progress: bool = True,
    with_ids: bool = True,
    model: SentenceModel | None = None,
) -> Inputs:
    """Open and check all input. Without `ids`, those in a CSV file of vectors are read, if `with_ids` is set.

    With a sentence model, `vectors` and `pairs` may hold texts, which are shown unless there are other `texts`.
    """
    beside = (labels, ids, texts)
    X = _opened(vectors, model, progress, beside)
    Y = None if pairs is None else _opened(pairs, model, progress, beside)
    if Y is not None and _shape(Y) != _shape(X):
        raise InputError(f"{pairs} has the shape {_shape(Y)}, expected {_shape(X)}, as in {vectors}")
    numbers, names = (None, ()) if labels is None else label_numbers(read_column(labels, len(X), vectors), labels)
    known_at = ids_within(vectors) if ids is None and with_ids else ids
    known = None if known_at is None else _ids(known_at, read_column(known_at, len(X), vectors, as_text=True))
    shown = X if isinstance(X, list) else None
    if texts is not None:
        shown = [_text(value) for value in read_column(texts, len(X), vectors, as_text=True)]
    pictures = None if media is None else _pictures(media, len(X), known, vectors, progress)
    given = {"vectors": vectors, "pairs": pairs, "labels": labels, "ids": ids, "texts": texts, "media": media}
    contents = {name: _version(path) for name, path in given.items() if path is not None}
    if model is not None and isinstance(X, list):
        with progress_bar(progress) as bar:
            bar.add_task(f"loading {model.name}", total=None)
            given["sentence_model"], contents["sentence_model"] = model.name, model.digest
    return Inputs(X, Y, numbers, names, known, shown, pictures, given, contents)


def encoded_inputs(
    vectors: str,
    pairs: str | None = None,
    labels: str | None = None,
    sentence_model: str | None = None,
    device: str = "auto",
    progress: bool = True,
) -> Inputs:
    """Open vectors, or texts that a sentence model encodes, with pairs and labels, for studies that write no run."""
    model = None if sentence_model is None else SentenceModel(sentence_model, device)
    given = open_inputs(vectors, pairs, labels, progress=progress, with_ids=False, model=model)
    if model is not None and not isinstance(given.vectors, list):
        raise InputError(f"{vectors} holds vectors, expected texts for the sentence model {sentence_model}")
    return given.encoded(model, progress)


def _opened(given: str, model: SentenceModel | None, progress: bool, beside: Iterable[str | None]) -> Any:
    """Open a file of vectors, or read the texts that a sentence model is to encode, as a list."""
    try:
        vectors = open_vectors(given, progress, beside=beside)
    except InputError:
        path, name = split_name(given)
        is_one_of_several = name is None and path.suffix.lower() in _OF_ARRAYS  # which may be the vectors
        if is_one_of_several or (texts := _texts_in(given, is_expected=model is not None)) is None:
            raise
        if model is None:
            found = f"{given} holds text, expected numbers"
            raise InputError(f"{found}; to encode texts add --sentence-model NAME") from None
        return texts
    return _checked(given, vectors)


def _shape(opened: Any) -> tuple[int, ...]:
    return (len(opened),) if isinstance(opened, list) else tuple(opened.shape)


def _texts_in(given: str, is_expected: bool) -> list[str] | None:
    """Read a column of texts; if it holds something else, that is an error or None."""
    try:
        values = read_column(given)
        if not any(isinstance(value, str) and not _NUMBERS.fullmatch(value) for value in values):
            raise InputError(f"{given} holds no words, expected texts, or a file of vectors")
    except InputError:
        if is_expected:
            raise
        return None
    return [_text(value) for value in values]


def _checked(given: str, vectors: Any) -> Any:
    """Check that each vector has a direction, and that the directions differ; return the vectors."""
    if len(vectors) < 2:
        raise InputError(f"{given} has one row, expected at least two")
    cpu = torch.device("cpu")
    first, is_one_direction = Rows(vectors[:1], device=cpu).take(torch.tensor([0]))[0], True
    least, most = np.full(vectors.shape[1], np.inf), np.full(vectors.shape[1], -np.inf)
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK]
        smallest, largest = block.min(1), block.max(1)
        is_finite = np.isfinite(smallest) & np.isfinite(largest)
        check_rows(given, is_finite, start, "NaN or infinity", "finite numbers")
        check_rows(given, (smallest != 0) | (largest != 0), start, "only zeros", "a vector with a direction")
        least, most = np.minimum(least, block.min(0)), np.maximum(most, block.max(0))
        if is_one_direction:  # rarely true beyond the first block
            is_one_direction = all(have_one_direction(units, first) for units in Rows(block, device=cpu).blocks(_BLOCK))
    if is_one_direction:
        raise InputError(
            f"{given}: all {len(vectors)} rows have the same direction, expected different directions, by which"
            " vectors are compared"
        )
    constant = np.flatnonzero(least == most)
    if len(constant):
        some = ", ".join(map(str, constant[:5])) + (", …" if len(constant) > 5 else "")
        found = f"{len(constant)} of {vectors.shape[1]} columns are constant ({some}) and carry no information"
        print_line(f"{given}: {found}", "yellow")
    return vectors


def _text(value: Any) -> str:
    """A value as text, whole numbers without a fraction; "" if it is missing."""
    if value is None or value != value:  # NaN
        return ""
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if is_whole else str(value)


def _ids(given: str, values: Any) -> list[str]:
    """Ids as text; none may be missing and all must differ."""
    ids = [_text(value) for value in values]
    seen: dict[str, int] = {}
    for row, value in enumerate(ids):
        if not value:
            raise InputError(f"{given}, row {row}, has no id, expected one per row")
        if value in seen:
            raise InputError(
                f"{given}: rows {seen[value]} and {row} have the same id {value!r}, expected different ids"
            )
        seen[value] = row
    return ids


def _pictures(media: str, rows: int, ids: Sequence[str] | None, vectors: str, progress: bool) -> Any:
    """One image per row, `(rows, height, width, channels)`, in a temporary file: they may not fit into memory."""
    if not Path(media).exists():
        raise InputError(f"media is {media!r}, which does not exist, expected a folder of images")
    source = open_source(media, image_size=_SHOWN_SIDE, progress=progress)
    names = [str(name) for name in source.ids]
    if ids is None:
        order = np.array(_in_order(names, rows))
        if len(order) != rows:
            raise InputError(
                f"{media} holds {counted(len(source), 'image')}, expected {rows}, one per row of {vectors}"
            )
    else:
        order = np.array(_by_id(names, ids, media))
    shape = (rows, *source.samples.shape[1:])
    with tempfile.TemporaryFile() as file:  # deleted when the array is no longer used
        pixels = np.memmap(file, np.uint8, "w+", shape=shape)
    for start in range(0, rows, 256):
        pixels[start : start + 256] = source.samples[order[start : start + 256]]
    return pixels


def _by_id(names: Sequence[str], ids: Sequence[str], media: str) -> list[int]:
    """The positions of the images with these ids: an id is an image's path, or its file name with or without ending.

    Example:
        >>> _by_id(["a/1.png", "a/2.png", "b/2.png"], ["b/2.png", "1"], "photos")
        [2, 0]
    """
    places: dict[str, list[int]] = {}
    for form in (str, lambda name: Path(name).name, lambda name: Path(name).stem):  # the exact ones come first
        named: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            named.setdefault(form(name), []).append(place)
        places = named | places
    for value in ids:
        if (found := len(places.get(value, ()))) != 1:
            raise InputError(
                f"{media} holds {f'{found} images' if found else 'no image'} named {value!r}, expected one"
            )
    return [places[value][0] for value in ids]


def _in_order(names: Sequence[str], rows: int) -> list[int]:
    """The positions of the images in row order: those named 0, 1, … if there is one per row, otherwise sorted by name.

    Numbers within names are sorted by value.

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


def _version(given: str) -> str:
    """The size and time of change of a file, from which a changed file is recognised."""
    found = split_name(given)[0].stat()
    return f"{found.st_size:,} bytes, modified {datetime.fromtimestamp(found.st_mtime, UTC).isoformat()}"
