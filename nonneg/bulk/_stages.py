"""Stages for pipelines of your own: a column of vectors becomes two columns, the active features and their values."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from nonneg.bulk._transformer import Model, Transformer
from nonneg.errors import InputError


class Encode:
    """A stage for Ray Data that adds the columns `features` and `values`, lists of equal length for each row.

    ```python
    pool = ray.data.ActorPoolStrategy(size=2)
    dataset.map_batches(Encode, fn_constructor_args=("runs/news", "vector"), batch_format="pyarrow", compute=pool)
    ```

    Args:
        model: a fitted `NonNegativeEmbedding`, or the path of a run of `nonneg convert`.
        column: the column of vectors.
    """

    def __init__(self, model: Model, column: str = "vector") -> None:
        self._transformer, self._column = Transformer(model), column

    def __call__(self, batch: pa.Table) -> pa.Table:
        if self._column not in batch.column_names:
            raise InputError(f"the columns are {', '.join(batch.column_names)}, expected {self._column}")
        codes = self._transformer.codes(batch[self._column], self._column)
        bounds = pa.array(codes.indptr.astype(np.int32))
        for name, values in (("features", codes.indices.astype(np.int32)), ("values", codes.data)):
            batch = batch.append_column(name, pa.ListArray.from_arrays(bounds, pa.array(values)))
        return batch


def encode_frames(model: Model, column: str = "vector") -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function for Spark's `mapInPandas` that adds the columns `features` and `values`.

    ```python
    schema = "id long, vector array<float>, features array<int>, values array<float>"
    frame.mapInPandas(encode_frames("runs/news"), schema)
    ```

    Args:
        model: a fitted `NonNegativeEmbedding`, or the path of a run of `nonneg convert`.
        column: the column of vectors.
    """
    transformer = Transformer(model)

    def encode(frames: Iterable[Any]) -> Iterator[Any]:
        for frame in frames:
            if column not in frame:
                raise InputError(f"the columns are {', '.join(map(str, frame.columns))}, expected {column}")
            codes = transformer.codes(pa.array(frame[column]), column)
            parts = (np.split(of, codes.indptr[1:-1])[: len(frame)] for of in (codes.indices, codes.data))
            yield frame.assign(**dict(zip(("features", "values"), parts, strict=True)))

    return encode
