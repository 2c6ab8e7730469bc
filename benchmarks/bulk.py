"""Bulk conversion: one process and two Ray workers, one of which is killed, on generated vectors.

python -m benchmarks.bulk --rows 1000000 --folder /tmp/bulk
"""

import argparse
import json
import os
import resource
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from nonneg import Features, NonNegativeEmbedding, bulk, search

_WIDTH, _GROUPS = 384, 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=Path("build/bulk"))
    given = parser.parse_args()
    vectors, out = given.folder / "vectors", given.folder / "out"
    shutil.rmtree(given.folder, ignore_errors=True)
    out.mkdir(parents=True)
    figures: dict[str, object] = {"rows": given.rows, "width": _WIDTH, "shards": given.shards}

    figures["writing vectors, s"] = timed(lambda: write_vectors(vectors, given.rows, given.shards))[0]
    figures["vectors, bytes per row"] = size(vectors) / given.rows
    sample = pq.read_table(next(vectors.iterdir()))["vector"].slice(0, 20_000)
    fitted = NonNegativeEmbedding(max_iter=200, random_state=0)
    figures["fit of 200 steps, s"] = timed(lambda: fitted.fit(np.stack(sample.to_numpy())))[0]

    pattern = str(vectors / "*.parquet")
    figures["one process, s"] = timed(lambda: bulk.convert_shards(fitted, pattern, out / "one.features"))[0]
    figures["peak memory of one process, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    import ray  # an extra that the tests do not install

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    killed: list[int] = []
    threading.Thread(target=kill_one, args=(out / "ray.features", killed), daemon=True).start()
    figures["two Ray workers, one killed, s"] = timed(
        lambda: bulk.convert_with_ray(fitted, pattern, out / "ray.features", workers=2)
    )[0]
    ray.shutdown()
    figures["workers killed"] = len(killed)
    same = [json.loads((out / name / "meta.json").read_text())["files"] for name in ("one.features", "ray.features")]
    figures["files equal"] = same[0] == same[1]
    figures["features, bytes per row"] = size(out / "ray.features") / given.rows

    before = psutil.Process().memory_info()
    figures["open, s"], features = timed(lambda: Features.load(out / "ray.features"))
    after = psutil.Process().memory_info()
    figures["open, private memory, MB"] = ((after.rss - after.shared) - (before.rss - before.shared)) / 2**20
    figures["codes are mapped"] = not features.codes.data.flags.owndata
    figures["index, s"], index = timed(lambda: search.Index.build(features))
    figures["512 queries, s"] = timed(lambda: index.query(features.codes[:512], k=10))[0]
    figures["active features, s"] = timed(lambda: features.expected_activation)[0]
    figures["load average"] = os.getloadavg()[1]
    print(json.dumps(figures, indent=1))


def write_vectors(folder: Path, rows: int, shards: int) -> None:
    """Vectors around centres, written in float32."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(_GROUPS, _WIDTH)).astype(np.float32)
    for shard, part in enumerate(np.array_split(np.arange(rows), shards)):
        values = centres[rng.integers(0, _GROUPS, len(part))]
        values += rng.normal(scale=0.7, size=values.shape).astype(np.float32)
        column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), _WIDTH)
        pq.write_table(pa.table({"vector": column}), folder / f"{shard:04}.parquet", compression=None)


def kill_one(out: Path, killed: list[int]) -> None:
    """Kill a worker once two parts are written."""
    while not killed:
        if len(list(out.glob("data-*"))) >= 2:
            for process in psutil.process_iter(["pid", "cmdline"]):
                if "ray::MapWorker" in " ".join(process.info["cmdline"] or []):
                    os.kill(process.info["pid"], signal.SIGKILL)
                    killed.append(process.info["pid"])
                    return
        time.sleep(0.05)


def timed(action):
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


if __name__ == "__main__":
    main()
