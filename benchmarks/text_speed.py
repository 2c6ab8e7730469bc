"""Sentences per second and memory of training MiniLM, beside sentence-transformers' own trainer.

    python -m benchmarks.text_speed --data FOLDER --out results

All rows run one after the other in one process, and each takes the median over the second half of its steps. A sentence
is one text with its two views. `peer` and `compared` rows have the same texts, encoder, batch and precision; `cached`
and `uncached` rows have batches of 4,096 texts of 32 tokens. Rows that are divided by each other alternate, so that
another program on the machine slows down both.
"""

import argparse
import gc
import itertools
import json
import os
import statistics
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from benchmarks import text_peers
from benchmarks.hardware import described
from benchmarks.text_data import divided
from benchmarks.text_runs import configured
from nonneg.errors import InputError
from nonneg.modalities.texts import Texts, ViewConfig
from nonneg.runs import read_log
from nonneg.training import TrainConfig, train

WIDE = {"features": 4096, "share": 0.015, "temperature": 0.2, "first_dense_weight": 0.5}
LARGE, TOKENS = 4096, 32
ROWS: dict[str, dict[str, Any]] = {
    "peer": {"peer": True},
    "compared-eager": {"compile": "off"},
    "peer-again": {"peer": True},
    "compared-eager-again": {"compile": "off"},
    "uncached": {"compile": "off", "large": True},
    "cached-1024": {"compile": "off", "large": True, "encode_rows": 1024},
    "cached-512": {"compile": "off", "large": True, "encode_rows": 512},
    "uncached-again": {"compile": "off", "large": True},
    "cached-1024-again": {"compile": "off", "large": True, "encode_rows": 1024},
    "compared-compiled": {"compile": "auto"},
    "peer-third": {"peer": True},
}


def main() -> None:
    """Measure each row that has no result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--minutes", type=float, default=1e6, help="after which no further row begins")
    parser.add_argument("--steps", type=int, default=120, help="steps per row; a quarter of them for large batches")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--large", type=int, default=LARGE)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"  # sentence-transformers tokenises on all cores, as by default
    until = time.monotonic() + 60 * args.minutes
    for name in args.rows:
        path = args.out / f"speed-{name}.json"
        if path.exists() or time.monotonic() > until:
            continue
        start = time.monotonic()
        try:
            found = measured(name, args)
        except Exception:  # one that cannot run must not stop the others
            path.with_suffix(".error").write_text(traceback.format_exc())
            print(f"{name}: failed: {traceback.format_exc(limit=-1)}", flush=True)
            continue
        path.write_text(json.dumps({"part": "speed", "name": name, **found}))
        print(f"{name}: {found}, {time.monotonic() - start:.0f} s", flush=True)
    print(described())


def measured(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return the speed and the peak memory of one row."""
    row = dict(ROWS[name])
    is_large = row.pop("large", False)
    batch_size = args.large if is_large else args.batch_size
    steps = args.steps // 4 if is_large else args.steps
    texts = divided(args.data, "agnews", validate=False)[0]
    lines = list(Texts().preview(texts, range(len(texts)))["texts"])
    if is_large:  # every text has more tokens than are kept
        lines = [f"{a} {b}" for a, b in zip(lines, lines[1:] + lines[:1], strict=True)]
    # Six epochs: the first ones compile and warm up.
    per_epoch = max(1, steps // 6)
    lines = list(itertools.islice(itertools.cycle(lines), per_epoch * batch_size))
    peak = {}
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    if row.pop("peer", False):
        speed = peer_speed(lines, args.data, batch_size, steps)
        path = "sentence-transformers' trainer"
    else:
        config = config_of(args.data, batch_size, row, TOKENS if is_large else 64, is_large)
        try:
            speed, path = own_speed(config, lines), config.compile
        except InputError as error:  # an encoder that cannot be recorded as one graph
            print(f"{name}: {error}", flush=True)
            speed, path = own_speed(config.replace(compile="forward"), lines), "forward"
    if torch.cuda.is_available():
        peak = {"peak_gb": torch.cuda.max_memory_allocated() / 1e9}
    return {"batch": batch_size, "path": path, "sentences_per_second": speed, **peak}


def config_of(data: Path, batch_size: int, row: dict[str, Any], length: int, is_large: bool) -> TrainConfig:
    """Return NCL's settings for a row."""
    task = {"method": "ncl", "seed": 0, "settings": {**WIDE, "encoder_lr": 0.02}}
    config = configured(task, data, 6, batch_size).replace(**row)
    views = ViewConfig() if is_large else ViewConfig(delete=0.3)
    return config.replace(modality=Texts(length=length, views=views))


def own_speed(config: TrainConfig, texts: list[str]) -> float:
    """Return the median sentences per second of the last three epochs."""
    with tempfile.TemporaryDirectory() as folder:
        log = read_log(train(config, Path(folder) / "run", source=texts, progress=False))
    return statistics.median(line["views_per_second"] for line in log[-3:]) / 2


def peer_speed(texts: list[str], data: Path, batch_size: int, steps: int) -> float:
    """Return the median sentences per second of the second half of the steps."""
    settings = {"seed": 0, "lr": 2e-5, "features": 0, "active": 0, "length": 64}
    pairs = text_peers.views(texts, 0.3, 6, 0)
    with tempfile.TemporaryDirectory() as folder:
        _, ends = text_peers.trained("dense", data / "minilm", pairs, Path(folder), settings, batch_size)
    half = ends[len(ends) // 2 :]
    return batch_size * (len(half) - 1) / (half[-1] - half[0])


if __name__ == "__main__":
    main()
