"""A `datasets.Dataset` that the caller has opened; this module does not import that library."""

import hashlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.messages import valid_text
from nonneg.modalities._splits import choose_split, row_ids
from nonneg.modalities.images.sources._collection import ListedFile, Listing
from nonneg.modalities.images.sources._parquet import IMAGE_COLUMNS, LABEL_COLUMNS, classes_of_column, stored_paths

_ROWS_AT_ONCE = 1000


def is_dataset(data: Any) -> bool:
    """Whether this is a Hugging Face dataset, or several by split: anything with `column_names`."""
    if isinstance(data, Mapping):
        return bool(data) and all(is_dataset(part) for part in data.values())
    return hasattr(data, "column_names")


class HuggingFace:
    """The rows of a dataset, or of one of its splits, in order."""

    def __init__(self, data: Any, split: str) -> None:
        others: list[Any] = []
        if isinstance(data, Mapping):
            own = split = choose_split(split, map(str, data), "the dataset")
            others = [part for name, part in data.items() if name != split and hasattr(part, "__getitem__")]
            data = data[split]
        else:
            own = str(getattr(data, "split", None) or "train")
        if split != "train" and own != split:
            raise InputError(f"the dataset is the split {own!r}, expected {split!r}; pass that split's dataset")
        if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
            raise InputError(f"data is a {type(data).__name__}, expected a dataset with a length (not a streaming one)")
        if not len(data):
            raise InputError("the dataset holds no rows, expected one per image")
        self._split = own
        columns = list(data.column_names)
        self._image = next((name for name in IMAGE_COLUMNS if name in columns), "")
        self._label = next((name for name in LABEL_COLUMNS if name in columns), "")
        if not self._image:
            raise InputError(f"the dataset has the columns {', '.join(columns)}, expected images in image or img")
        self._features: Mapping[str, Any] = getattr(data, "features", None) or {}
        self._stored_fingerprint = getattr(data, "_fingerprint", None)
        self._data = _undecoded(data, self._image, self._features)
        name = getattr(getattr(data, "info", None), "dataset_name", None) or "dataset"
        self.title = f"{valid_text(str(name))}/{self._split}"
        self._others = [part for part in others if self._label in part.column_names]

    @property
    def place(self) -> str:
        # A part of a dataset has the same name as the whole, but is not another version of it.
        return f"dataset {self.title} {hashlib.sha256(self.fingerprint().encode()).hexdigest()}"

    def fingerprint(self) -> str:
        # Classes given as words are numbered over all splits.
        others = [getattr(part, "_fingerprint", None) or repr(self._labels(part)) for part in self._others]
        return "\n".join([self._own_fingerprint(), *map(str, others)])

    def _own_fingerprint(self) -> str:
        if self._stored_fingerprint is None:
            digest = hashlib.sha256(repr((self.title, self._names())).encode())
            for row in range(len(self._data)):
                sample = self._data[row]
                digest.update(_content(sample[self._image]) + repr(sample.get(self._label)).encode())
            self._stored_fingerprint = digest.hexdigest()
        return str(self._stored_fingerprint)

    def listing(self) -> Listing:
        labels = self._labels(self._data) if self._label else []
        elsewhere = [label for part in self._others for label in self._labels(part)]
        numbers, names = classes_of_column(labels, self._names(), elsewhere, f"the dataset's column {self._label}")
        ids = stored_paths(self._paths()) or row_ids(self._split, len(self._data))
        return Listing(self.title, ids, numbers, names)

    def read(self, start: int) -> Iterator[Any]:
        return (_encoded(self._data[row][self._image]) for row in range(start, len(self._data)))

    def _labels(self, part: Any) -> list[Any]:
        return list(_unformatted(part)[self._label])

    def _names(self) -> Sequence[str]:
        return list(getattr(self._features.get(self._label), "names", None) or ())

    def _paths(self) -> list[str | None]:
        """Return the paths of the image files, in Arrow's format, which does not read their bytes."""
        if not hasattr(self._data, "with_format"):
            return []
        rows = self._data.with_format("arrow")
        paths: list[str | None] = []
        for start in range(0, len(self._data), _ROWS_AT_ONCE):
            stored = rows[start : start + _ROWS_AT_ONCE].column(self._image)
            if not str(stored.type).startswith("struct<") or stored.type.get_field_index("path") < 0:
                return []
            paths += [path for chunk in stored.chunks for path in chunk.field("path").to_pylist()]
        return paths


def _undecoded(data: Any, column: str, features: Mapping[str, Any]) -> Any:
    """Return the dataset without the caller's transforms, with stored files instead of decoded images."""
    data = _unformatted(data)
    feature: Any = features.get(column)
    if hasattr(data, "cast_column") and getattr(feature, "decode", False):
        data = data.cast_column(column, type(feature)(decode=False))
    return data


def _unformatted(data: Any) -> Any:
    return data.with_format(None) if hasattr(data, "with_format") else data


def _encoded(value: Any) -> Any:
    """Return the input of `decode`."""
    if isinstance(value, Mapping):
        stored, path = value.get("bytes"), value.get("path")
        return stored if stored is not None or path is None else _file(path)
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim in (2, 3):
        return import_extra("PIL.Image", "an image", extra="images").fromarray(value)
    return value


def _file(path: str) -> ListedFile:
    """Describe a file; a missing one is an error, because the dataset's fingerprint would not show its return."""
    with read_errors_as_input_errors(Path(path)):
        found = Path(path).stat()
    return ListedFile(os.fspath(path), found.st_size, found.st_mtime_ns, readable=True)


def _content(value: Any) -> bytes:
    """Return bytes that change with the image."""
    value = _encoded(value)
    if hasattr(value, "__array_interface__") and not isinstance(value, np.ndarray):  # a Pillow image
        buffer = io.BytesIO()
        np.save(buffer, np.asarray(value), allow_pickle=False)
        return buffer.getvalue()
    return value if isinstance(value, bytes) else str(value).encode()
