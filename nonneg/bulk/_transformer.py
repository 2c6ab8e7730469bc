"""What every process does: load a model once, and turn shards into parts of features or vectors into codes."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nonneg.bulk._shard import Shard, batches
from nonneg.convert import NonNegativeEmbedding
from nonneg.durable import read_object
from nonneg.errors import InputError
from nonneg.features import Features, Part, write_part
from nonneg.messages import one_line
from nonneg.models import load
from nonneg.tables import arrow_vectors

Model = NonNegativeEmbedding | str | Path


class Transformer:
    """Turns vectors or samples into codes with a model that is loaded when first used, and so in every process.

    Args:
        model: a fitted `NonNegativeEmbedding`, or the path of a run of `nonneg convert` or `nonneg train`.
    """

    def __init__(self, model: Model) -> None:
        self.model = model if isinstance(model, NonNegativeEmbedding) else str(model)

    @cached_property
    def _loaded(self) -> Any:
        if isinstance(self.model, NonNegativeEmbedding):
            return self.model
        described = Path(self.model) / "model" / "config.json"
        is_trained = described.is_file() and "encoder" in read_object(described)
        return load(self.model) if is_trained else NonNegativeEmbedding.from_pretrained(self.model)

    @property
    def name(self) -> str:
        return self.model if isinstance(self.model, str) else type(self.model).__name__

    @property
    def most_active(self) -> int:
        """Return how many entries a row can have: `max_active`, or the number of features."""
        model = self._loaded
        if isinstance(model, NonNegativeEmbedding):
            return int(model.max_active or model.n_components)
        return int(model.config.features)

    def codes(self, vectors: Any, name: str) -> sp.csr_array:
        """Return the codes `(rows, features)` of an Arrow column of vectors with this name."""
        if not isinstance(self._loaded, NonNegativeEmbedding):
            raise InputError(f"{self.name} is a trained model, expected a run of nonneg convert to transform vectors")
        if not len(vectors):
            return sp.csr_array((0, self._loaded.n_components), dtype=np.float32)
        return self._loaded.transform(arrow_vectors(vectors, name))

    def write(self, shard: Shard, folder: Path, index_bytes: int) -> Part:
        """Transform a shard and write it as a part of the features in a folder."""
        return write_part(self.features(shard), folder, index_bytes)

    def features(self, shard: Shard) -> Features:
        """Transform a shard: codes with the ids, labels and texts that it names.

        The ids of a trained model's samples begin with the shard's name: rows without ids are numbered in each file.
        """
        if not isinstance(self._loaded, NonNegativeEmbedding):
            found = self._loaded.embed(shard.path, media=False)
            ids = [f"{shard.name}/{found.id(row)}" for row in range(len(found))]
            texts = found.samples["text"] if "text" in found.samples.column_names else None
            return Features(found.codes, ids=ids, labels=found.labels, label_names=found.label_names, texts=texts)
        codes, tables = [], []
        try:
            for batch in batches(shard, self._loaded.n_features_in_):
                codes.append(self.codes(batch.column(shard.vectors), shard.vectors))
                tables.append(batch.select(shard.others))
        # Of scikit-learn: another width, NaN; of pyarrow: a damaged file.
        except (ValueError, OSError, pa.ArrowException) as error:
            raise InputError(f"{shard.path}: {one_line(error)}") from error
        if not codes:
            raise InputError(f"{shard.path} has no rows, expected at least one")
        table = pa.Table.from_batches(tables)
        if shard.ids and table[shard.ids].null_count:
            raise InputError(f"{shard.path}: the column {shard.ids} has missing ids, expected one per row")
        try:
            return Features(
                sp.vstack(codes, "csr"),
                ids=[str(each) for each in table[shard.ids].to_pylist()] if shard.ids else None,
                labels=_whole_numbers(table[shard.labels]) if shard.labels else None,
                texts=table[shard.texts].to_pylist() if shard.texts else None,
            )
        except InputError as error:
            raise InputError(f"{shard.path}: {error}") from error


def _whole_numbers(column: Any) -> Any:
    try:
        return column.cast(pa.int64()).fill_null(-1).to_numpy()
    except pa.ArrowInvalid as error:
        raise InputError(f"labels are too large: {one_line(error)}") from error
