"""Parquet files as hubs publish them: encoded images in one column, labels in another."""

import itertools
import json
import numbers
import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import one_line
from nonneg.modalities._splits import SPLITS, choose_split, numbered_classes, require_train, row_ids, unique_ids
from nonneg.modalities.images.sources._collection import Listing, short_name

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "labels", "fine_label")
_SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}")
_ROWS_AT_ONCE = 64


class Parquet:
    """The rows of one split, file by file in order of file name."""

    def __init__(self, data: Path, files: Sequence[Path], split: str) -> None:
        self._data = data
        by_split: dict[str, list[Path]] = {}
        for file in sorted(files):
            by_split.setdefault(_split_of(file, data), []).append(file)
        if len(by_split) == 1 and not set(by_split) & set(SPLITS):  # "", or just a name as in data-00000-of-00001
            require_train(split, str(data))
            self._split, [self._files] = split, by_split.values()
            self._elsewhere: list[Path] = []
        else:
            by_split.pop("", None)
            self._split = choose_split(split, by_split, str(data))
            self._files = by_split.pop(self._split)
            self._elsewhere = [file for others in by_split.values() for file in others]
        self._image, self._label, self._names = "", "", ()  # type: str, str, Sequence[str]
        self.title = f"{short_name(data)}/{self._split}"
        self.place = f"parquet {os.path.realpath(data)} {split}"

    @property
    def files(self) -> Sequence[Path]:
        """The files of the split, in the order of their rows."""
        return self._files

    @property
    def elsewhere(self) -> Sequence[Path]:
        """The files of the other splits."""
        return self._elsewhere

    def fingerprint(self) -> str:
        # Includes the other splits, because classes given as words are numbered over all of them.
        with read_errors_as_input_errors(self._data):
            found = [(os.path.relpath(file, self._data), file.stat()) for file in [*self._files, *self._elsewhere]]
        return "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in found)

    def listing(self) -> Listing:
        labels: list[Any] = []
        paths: list[str | None] = []
        for file in self._files:
            parquet = _opened(file)
            self._choose_columns(file, parquet.schema_arrow)
            has_path = _is_struct(parquet.schema_arrow, self._image, "path")
            columns = [*([self._label] if self._label else []), *([f"{self._image}.path"] if has_path else [])]
            for batch in _batches(file, parquet, columns, 65_536, 0) if columns else ():
                if self._label:
                    labels += batch.column(self._label).to_pylist()
                if has_path:
                    paths += batch.column(self._image).field("path").to_pylist()
        rows = sum(_opened(file).metadata.num_rows for file in self._files)
        if not rows:
            raise InputError(f"{self._data} holds no rows, expected one per image")
        ids = stored_paths(paths) if len(paths) == rows else None
        where = f"{self._data}, column {self._label},"
        numbered, names = classes_of_column(labels, self._names, self._labels_elsewhere(), where)
        return Listing(self.title, ids or row_ids(self._split, rows), numbered, names)

    def _labels_elsewhere(self) -> set[Any]:
        """Return the labels of the other splits, some of which may have none."""
        labels: set[Any] = set()
        for file in self._elsewhere if self._label else ():
            parquet = _opened(file)
            if self._label in parquet.schema_arrow.names:
                for batch in _batches(file, parquet, [self._label], 65_536, 0):
                    found = batch.column(self._label).to_pylist()
                    labels.update(label for label in found if isinstance(label, str | int))
        return labels

    def read(self, start: int) -> Iterator[bytes | None]:
        for file in self._files:
            parquet = _opened(file)
            rows = parquet.metadata.num_rows
            if start < rows:
                bare = not _is_struct(parquet.schema_arrow, self._image, "bytes")
                column = self._image if bare else f"{self._image}.bytes"
                for batch in _batches(file, parquet, [column], _ROWS_AT_ONCE, start):
                    values = batch.column(self._image)
                    yield from (values if bare else values.field("bytes")).to_pylist()
            start = max(0, start - rows)

    def _choose_columns(self, file: Path, schema: Any) -> None:
        """Find the columns by their usual names; they must be the same in every file."""
        image = _image_column(schema)
        if not image:
            found = ", ".join(f"{field.name} ({field.type})" for field in schema)[:300]
            raise InputError(f"{file} has the columns {found}, expected encoded images in a column image or img")
        label = next((name for name in LABEL_COLUMNS if name in schema.names), "")
        if self._image and (image, label) != (self._image, self._label):
            raise InputError(f"{file} has other columns than {self._files[0]}, expected the same in every file")
        self._image, self._label, self._names = image, label, _class_names(schema, label)


def parquet_files(folder: Path) -> list[Path]:
    """Return the files where hubs put them: in the folder itself, in `data`, or in folders by split."""
    with read_errors_as_input_errors(folder):
        places = [folder, *(folder / name for name in ("data", "default", *SPLITS))]
        places += [folder / "default" / name for name in SPLITS]
        files = [file for place in places for file in place.glob("[!.]*.parquet") if file.name != "metadata.parquet"]
        return [file for file in files if file.is_file()]


def holds_encoded_images(file: Path) -> bool:
    """Whether a file has a column of encoded images, and not only labels or the names of image files."""
    return bool(_image_column(_opened(file).schema_arrow))


def stored_paths(paths: Sequence[str | None]) -> tuple[str, ...] | None:
    """Return the paths stored with the images as ids if they are all different; absolute ones without folders."""
    names = [os.path.basename(path) if os.path.isabs(path) else path for path in paths if path]  # noqa: PTH117, PTH119
    return unique_ids(names) if names and len(set(names)) == len(paths) else None


def classes_of_column(
    labels: Sequence[Any], names: Sequence[str], elsewhere: Collection[Any], where: str
) -> tuple[Sequence[int] | None, tuple[str, ...]]:
    """Convert stored labels (numbers, words or None) to numbers with names.

    Args:
        labels: one per sample, None for unlabelled.
        names: the names of labels that are numbers, if known.
        elsewhere: labels of the other splits, so that a word has the same number in all of them.
        where: the data, for the message.
    """
    given = [label for label in labels if label is not None]
    if not given:
        return None, ()
    odd = next((label for label in given if not isinstance(label, str | numbers.Integral)), None)
    if odd is not None:
        raise InputError(f"{where} holds a {type(odd).__name__}, expected class numbers or names")
    words = sorted({label for label in itertools.chain(given, elsewhere) if isinstance(label, str)})
    number = next((label for label in itertools.chain(given, elsewhere) if isinstance(label, numbers.Integral)), None)
    if words and number is not None:
        raise InputError(f"{where} holds both words ({words[0]!r}) and numbers ({number}), expected one of the two")
    if words:
        number_of = {word: row for row, word in enumerate(words)}
        return [-1 if label is None else number_of[label] for label in labels], tuple(words)
    return numbered_classes([-1 if label is None else int(label) for label in labels], names, where)


def _split_of(file: Path, data: Path) -> str:
    """Return the split of `train-00000-of-00002.parquet`, `train.parquet` or `train/0000.parquet`; "" if unknown."""
    shard = _SHARD.fullmatch(file.stem)
    if shard:
        return shard[1]
    for name in (file.stem, *(parent.name for parent in file.relative_to(data).parents)):
        if name in SPLITS:
            return name
    return ""


def _image_column(schema: Any) -> str:
    """Return the name of the column of encoded images; "" if there is none."""
    name = next((name for name in IMAGE_COLUMNS if name in schema.names), "")
    encoded = name and (_is_struct(schema, name, "bytes") or "binary" in str(schema.field(name).type))
    return name if encoded else ""


def _is_struct(schema: Any, column: str, field: str) -> bool:
    kind = schema.field(column).type
    return str(kind).startswith("struct<") and kind.get_field_index(field) >= 0


def _class_names(schema: Any, label: str) -> Sequence[str]:
    """Return the class names in the metadata that Hugging Face's `datasets` writes into the file."""
    try:
        names = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return ()
    return [str(name) for name in names] if isinstance(names, list) else ()


def _opened(file: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Small buffers instead of whole row groups, which may take gigabytes.
        return pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file} is damaged or not Parquet: {one_line(error)}") from error


def _batches(file: Path, parquet: Any, columns: list[str], rows: int, start: int) -> Iterator[Any]:
    """Yield batches of rows from row `start` on; earlier row groups are not read."""
    import pyarrow as pa

    groups: list[int] = []
    for group in range(parquet.num_row_groups):
        held = parquet.metadata.row_group(group).num_rows
        if groups or start < held:
            groups.append(group)
        else:
            start -= held
    try:
        for batch in parquet.iter_batches(rows, row_groups=groups, columns=columns, use_threads=False):
            if start < len(batch):
                yield batch.slice(start)
            start = max(0, start - len(batch))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file} is damaged: {one_line(error)}") from error
