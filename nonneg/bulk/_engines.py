"""Shards to features: in one process, on a Ray cluster, or with Spark. The files are the same in all three cases."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from glob import glob
from pathlib import Path
from typing import Any

from nonneg.bulk._shard import Shard
from nonneg.bulk._transformer import Model, Transformer
from nonneg.durable import folder_lock
from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.features import Features, Part, check_writable, commit_parts, remove_leftovers

Shards = str | Path | Sequence[str | Path]


def convert_shards(
    model: Model, shards: Shards, out: str | Path, *, overwrite: bool = False, **columns: str
) -> Features:
    """Turn Parquet files into one `Features` folder, in this process.

    Args:
        model: a fitted `NonNegativeEmbedding`, or the path of a run of `nonneg convert` or `nonneg train`.
        shards: the paths of the files, or a pattern such as `vectors/*.parquet`; their order is that of the samples.
        out: the folder of the features. Every process must see it, the files and the run under the same path.
        overwrite: replace earlier features in that folder.
        **columns: `vectors`, `ids`, `labels` and `texts`: the columns of `Shard`.

    Returns:
        The features, opened as one; their arrays stay in one file per shard.
    """
    return _convert(model, shards, out, overwrite, columns, lambda task, tasks: [task(each) for each in tasks])


def convert_with_ray(
    model: Model,
    shards: Shards,
    out: str | Path,
    *,
    workers: int = 2,
    overwrite: bool = False,
    **columns: str,
) -> Features:
    """Do the same on a Ray cluster: `workers` processes take one shard at a time; a shard that is lost is repeated.

    Uses the cluster that `ray.init` has connected to, or starts one on this machine. Other arguments and the result are
    those of `convert_shards`.
    """
    data = import_extra("ray.data", "convert_with_ray", extra="ray")

    def distribute(task: "_WriteShard", tasks: list[str]) -> list[str]:
        dataset = data.from_items([{"shard": each} for each in tasks], override_num_blocks=len(tasks))
        pool = data.ActorPoolStrategy(size=workers)
        written = dataset.map_batches(_RayStage, fn_constructor_args=(task,), batch_size=1, compute=pool)
        return [row["part"] for row in written.take_all()]

    return _convert(model, shards, out, overwrite, columns, distribute)


def convert_with_spark(
    model: Model, shards: Shards, out: str | Path, *, spark: Any, overwrite: bool = False, **columns: str
) -> Features:
    """Do the same with Spark, by `mapInPandas`: one task per shard, which Spark repeats if its executor is lost.

    `spark` is a session. Other arguments and the result are those of `convert_shards`.
    """

    def distribute(task: "_WriteShard", tasks: list[str]) -> list[str]:
        def write(frames: Any) -> Any:
            for frame in frames:
                yield frame.assign(part=[task(each) for each in frame["shard"]])[["part"]]

        # One partition per shard: a partition is what Spark gives to an executor and repeats.
        rows = spark.sparkContext.parallelize([(each,) for each in tasks], len(tasks)).toDF("shard string")
        return [row["part"] for row in rows.mapInPandas(write, "part string").collect()]

    return _convert(model, shards, out, overwrite, columns, distribute)


class _WriteShard:
    """Writes a shard and returns its number and its part, or a sentence that says what is wrong with it.

    Tasks and results are JSON, which every engine can carry. An engine would repeat a task that raises an error.
    """

    def __init__(self, transformer: Transformer, folder: Path, index_bytes: int) -> None:
        self._transformer, self._folder, self._index_bytes = transformer, folder, index_bytes

    def __call__(self, task: str) -> str:
        number, shard = json.loads(task)
        try:
            written = self._transformer.write(Shard(**shard), self._folder, self._index_bytes)
        except InputError as error:
            return json.dumps([number, str(error)])
        return json.dumps([number, asdict(written)])


class _RayStage:
    def __init__(self, task: _WriteShard) -> None:
        self._task = task

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        return {"part": [self._task(each) for each in batch["shard"]]}


def _convert(
    model: Model,
    shards: Shards,
    out: str | Path,
    overwrite: bool,
    columns: dict[str, str],
    distribute: Callable[[_WriteShard, list[str]], list[str]],
) -> Features:
    if isinstance(shards, str | Path):
        paths: Sequence[str | Path] = sorted(glob(str(shards)))  # noqa: PTH207, a pattern may be absolute
    else:
        paths = list(shards)
    if not paths:
        raise InputError(f"shards: {shards} matches no file, expected Parquet files")
    if unknown := set(columns) - {"vectors", "ids", "labels", "texts"}:
        raise InputError(f"{min(unknown)} is not a column to choose, expected vectors, ids, labels or texts")
    chosen = [Shard(path, name=name, **columns) for name, path in _named(paths).items()]
    folder = Path(out).resolve()
    check_writable(folder, overwrite)
    transformer = Transformer(model)
    index_bytes = 8 if sum(shard.rows for shard in chosen) * transformer.most_active >= 2**31 else 4
    with folder_lock(folder):
        check_writable(folder, overwrite)
        tasks = [json.dumps([number, asdict(shard)]) for number, shard in enumerate(chosen)]
        try:
            written = dict(map(json.loads, distribute(_WriteShard(transformer, folder, index_bytes), tasks)))
            parts = [_part(written[number]) for number in range(len(chosen))]
            provenance = {"source": [Path(path).name for path in paths], "run": Path(transformer.name).name}
            return commit_parts(folder, parts, {**provenance, "layer": "projector"})
        finally:
            remove_leftovers(folder)


def _named(paths: Sequence[str | Path]) -> dict[str, str]:
    """Return the absolute paths of files by their names: what differs between the paths, without suffixes."""
    absolute = [Path(path).resolve() for path in paths]
    common = os.path.commonpath([path.parent for path in absolute])
    named: dict[str, str] = {}
    for path in absolute:
        name = path.relative_to(common).with_suffix("").as_posix()
        if name in named:
            raise InputError(f"shards: {path} and {named[name]} have the same name, expected different ones")
        named[name] = str(path)
    return named


def _part(written: dict[str, Any] | str) -> Part:
    if isinstance(written, str):
        raise InputError(written)
    rows, features = written["shape"]
    return Part((rows, features), tuple(written["label_names"]), written["files"])
