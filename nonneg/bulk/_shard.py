"""A Parquet file of vectors, read a few rows at a time; one that would take too much memory is rejected."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nonneg.durable import MOST_BYTES, check_regular_file
from nonneg.errors import InputError
from nonneg.tables import check_vector_type

_ROWS_AT_A_TIME = 65_536
_BYTES_AT_A_TIME = 2**30  # of text
_TEXTS = (pa.string(), pa.large_string(), pa.string_view())


@dataclass(frozen=True)
class Shard:
    """A Parquet file and what to take from it.

    Attributes:
        path: the file; every process must be able to read it.
        vectors: the column of vectors, for a converted model; a trained model reads the file as its modality does.
        ids, labels, texts: columns to store with the codes; empty for none. Labels are whole numbers.
        name: what distinguishes it from other shards.
    """

    path: str
    vectors: str = "vector"
    ids: str = ""
    labels: str = ""
    texts: str = ""
    name: str = ""

    @property
    def rows(self) -> int:
        return int(_opened(self.path).metadata.num_rows)

    @property
    def others(self) -> list[str]:
        """The names of the columns to store with the codes, each once."""
        return list(dict.fromkeys(name for name in (self.ids, self.labels, self.texts) if name))


def batches(shard: Shard, width: int) -> Iterator[Any]:
    """Yield the columns of a shard whose vectors have this width, as Arrow record batches; errors do not name it."""
    schema = _opened(shard.path).schema_arrow
    if unclear := [name for name in (shard.vectors, *shard.others) if schema.names.count(name) != 1]:
        raise InputError(f"the columns are {', '.join(schema.names)}, expected {unclear[0]} once")
    texts = _text_columns(shard, schema)
    # Texts are read as dictionaries, so that their decoded size is known before memory is taken.
    file = _opened(shard.path, texts)
    check_vector_type(schema.field(shard.vectors).type, shard.vectors)
    _check_width(file.metadata, schema.names, shard, width)
    total = 0
    for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=[shard.vectors, *shard.others]):
        sizes = _text_bytes(batch, texts)
        total += int(sizes.sum())
        if total > MOST_BYTES:
            raise InputError(f"it holds more than {MOST_BYTES:,} bytes of text, expected smaller shards")
        # Arrow's strings have 32-bit offsets.
        starts = [0, *(np.flatnonzero(np.diff(sizes.cumsum() // _BYTES_AT_A_TIME)) + 1).tolist(), len(batch)]
        for start, stop in pairwise(starts):
            part = batch.slice(start, stop - start)
            yield pa.record_batch([_plain(column) for column in part.columns], batch.schema.names)


def _text_columns(shard: Shard, schema: Any) -> list[str]:
    """Return the columns of text to store; raise an `InputError` if a column to store has another type."""
    found = []
    for title, name in (("ids", shard.ids), ("labels", shard.labels), ("texts", shard.texts)):
        if not name:
            continue
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if pa.types.is_null(kind):  # pandas writes a column without any value so
            continue
        is_text, is_whole = kind in _TEXTS and title != "labels", pa.types.is_integer(kind) and title != "texts"
        if not is_text and not is_whole:
            expected = {"ids": "text or whole numbers", "labels": "whole numbers", "texts": "text"}[title]
            raise InputError(f"{title} are {kind}, expected {expected}")
        if is_text and name not in found:
            found.append(name)
    return found


def _check_width(metadata: Any, names: list[str], shard: Shard, width: int) -> None:
    """Raise an `InputError` if there are more numbers than rows times width.

    Rows that are too short are reported when they are read.
    """
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for position in range(group.num_columns):
            column = group.column(position)
            path = column.path_in_schema  # such as vector.list.element; a column's own name may have dots, too
            owner = max((name for name in names if f"{path}.".startswith(f"{name}.")), key=len)
            if owner == shard.vectors and column.num_values > group.num_rows * width:
                found = column.num_values / group.num_rows if group.num_rows else column.num_values
                raise InputError(f"{shard.vectors} has {found:.0f} numbers per row, expected {width}")


def _text_bytes(batch: Any, texts: list[str]) -> npt.NDArray[np.int64]:
    """Return the bytes of text in each row, `(rows,)`."""
    sizes = np.zeros(len(batch), np.int64)
    for name in texts:
        column = batch.column(name)
        lengths = pc.binary_length(column.dictionary).fill_null(0).cast(pa.int64())
        sizes += lengths.take(column.indices).fill_null(0).to_numpy(zero_copy_only=False)
    return sizes


def _plain(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _opened(path: str, texts: list[str] | None = None) -> Any:
    check_regular_file(Path(path))  # a pipe would be waited for
    try:
        return pq.ParquetFile(path, memory_map=True, read_dictionary=texts)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from None
