"""A Parquet file of vectors, read a few rows at a time; a small file that stands for too much is rejected."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nonneg.durable import MOST_BYTES, check_regular_file
from nonneg.errors import InputError
from nonneg.tables import check_vector_type

_ROWS_AT_A_TIME = 65_536
_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


@dataclass(frozen=True)
class Shard:
    """A Parquet file and what to take from it.

    Attributes:
        path: the file; every process must be able to read it.
        vectors: the column of vectors, for a converted model; a trained model reads the file as its modality does.
        ids, labels, texts: columns to store with the codes; empty for none. Labels are whole numbers.
    """

    path: str
    vectors: str = "vector"
    ids: str = ""
    labels: str = ""
    texts: str = ""

    @property
    def rows(self) -> int:
        return int(_opened(self.path).metadata.num_rows)

    @property
    def others(self) -> list[str]:
        """The names of the columns to store with the codes."""
        return [name for name in (self.ids, self.labels, self.texts) if name]


def batches(shard: Shard, width: int) -> Iterator[Any]:
    """Yield the columns of a shard whose vectors have this width, as Arrow record batches; errors do not name it."""
    schema = _opened(shard.path).schema_arrow
    if absent := [name for name in (shard.vectors, *shard.others) if name not in schema.names]:
        raise InputError(f"the columns are {', '.join(schema.names)}, expected {absent[0]}")
    # One value may stand for many rows: it is read once, and its rows are counted before they are filled.
    texts = [name for name in {shard.ids, shard.texts} if name and schema.field(name).type in _TEXTS]
    file = _opened(shard.path, texts)
    check_vector_type(schema.field(shard.vectors).type, shard.vectors)
    _check_width(file.metadata, shard, width)
    total = 0
    for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=[shard.vectors, *shard.others]):
        total += sum(map(_text_bytes, batch.columns))
        if total > MOST_BYTES:
            raise InputError(f"it holds more than {MOST_BYTES:,} bytes of text, expected smaller shards")
        yield pa.record_batch([_plain(column) for column in batch.columns], batch.schema.names)


def _check_width(metadata: Any, shard: Shard, width: int) -> None:
    """Raise an `InputError` if there are more numbers than rows times width; too few are found when they are read."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for position in range(group.num_columns):
            column = group.column(position)
            if column.path_in_schema.startswith(f"{shard.vectors}.") and column.num_values > group.num_rows * width:
                found = column.num_values / group.num_rows if group.num_rows else column.num_values
                raise InputError(f"{shard.vectors} has {found:.0f} numbers per row, expected {width}")


def _text_bytes(column: Any) -> int:
    if not pa.types.is_dictionary(column.type) or column.type.value_type not in _TEXTS:
        return 0
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)


def _plain(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _opened(path: str, texts: list[str] | None = None) -> Any:
    check_regular_file(Path(path))  # a pipe would be waited for
    try:
        return pq.ParquetFile(path, memory_map=True, read_dictionary=texts)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from None
