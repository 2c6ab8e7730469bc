"""MiniLM adapted without labels to five sets of short texts, and a transformer from scratch on captions of pictures.

    python -m benchmarks.text --data FOLDER --out results --workers 12 --minutes 7
    python -m benchmarks.text --out results --tables

`benchmarks.text_data` says what the folder holds. First, settings are searched on a validation part of the training
rows of two sets, and chosen by rule; then CL, NCL and sentence-transformers train on all five sets with three seeds,
and are evaluated on test rows that nothing has seen. Each run writes one JSON file at once; a second call continues.
The protocol and the results are in docs/results/text.md, speed and memory in `benchmarks.text_speed`.
"""

import argparse
import json
import multiprocessing
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from benchmarks.hardware import described
from benchmarks.text_data import SETS
from benchmarks.text_runs import run_one
from benchmarks.text_tables import chosen, tables

METHODS = ("cl", "ncl", "dense", "sparse")
SEARCHED = ("stackoverflow", "agnews")
FADE = {"first_dense_weight": 0.5, "dense_weight": 0.0}
PARTS = ["search", "sets", "captions", "intents"]
ACTIVE = 61  # features per text, in every sparse method


def wide(features: int, temperature: float, dense_temperature: float, **more: Any) -> dict[str, Any]:
    """Return settings of NCL in which about 61 features per text are active."""
    temperatures = {"temperature": temperature, "dense_temperature": dense_temperature}
    return {"features": features, "share": ACTIVE / features, **temperatures, **more}


# CL and NCL have the same grid of deletion and of the encoder's learning rate at their usual temperature.
SEARCH: dict[str, list[dict[str, Any]]] = {
    "ncl": [
        wide(4096, 0.2, 0.1, **FADE, delete=delete, encoder_lr=rate) for delete in (0.3, 0.5) for rate in (0.02, 0.1)
    ]
    + [
        wide(4096, 0.1, 0.05, **FADE, delete=0.5, encoder_lr=0.02),
        wide(4096, 0.1, 0.05, **FADE, delete=0.5, encoder_lr=0.1),
        wide(4096, 0.2, 0.1, dense_weight=0.5, delete=0.5, encoder_lr=0.02),
        wide(4096, 0.4, 0.1, **FADE, delete=0.5, encoder_lr=0.02),
    ],
    "cl": [
        {"features": 4096, "temperature": temperature, "delete": delete, "encoder_lr": rate}
        for temperature, delete, rate in (
            (0.1, 0.3, 0.02),
            (0.1, 0.5, 0.02),
            (0.1, 0.3, 0.1),
            (0.1, 0.5, 0.1),
            (0.05, 0.5, 0.02),
            (0.05, 0.5, 0.1),
            (0.2, 0.5, 0.02),
            (0.2, 0.5, 0.1),
        )
    ],
    "dense": [{"delete": delete, "lr": lr} for delete in (0.3, 0.5) for lr in (2e-5, 1e-4)],
    "sparse": [{"delete": delete, "lr": lr} for delete in (0.3, 0.5) for lr in (2e-5, 1e-4)],
}
CAPTIONS = {
    "cl": [{"features": 4096, "temperature": temperature} for temperature in (0.05, 0.1)],
    "ncl": [wide(4096, 0.2, 0.1, **FADE), wide(4096, 0.1, 0.05, **FADE), wide(4096, 0.1, 0.05, dense_weight=0.5)],
}
# The recipe `text` from scratch on the bundled intents: why NCL's projector was behind, one change at a time.
INTENTS: dict[str, list[dict[str, Any]]] = {
    "cl": [{}, {"temperature": 0.05}, {"features": 2048}, {"features": 2048, "temperature": 0.2}],
    "ncl": [
        {},
        {**FADE, "temperature": 0.2},
        {"features": 2048, "share": 0.03},
        {**FADE, "features": 2048, "share": 0.03, "temperature": 0.2},
        {**FADE, "features": 2048, "share": 0.03, "temperature": 0.1, "dense_temperature": 0.05},
        {**FADE, "features": 4096, "share": 0.015, "temperature": 0.2},
        {**FADE, "features": 4096, "share": 0.015, "temperature": 0.1, "dense_temperature": 0.05},
        {**FADE, "features": 4096, "share": 0.015, "temperature": 0.2, "epochs": 24},
        {**FADE, "features": 2048, "share": 0.06, "temperature": 0.1, "dense_temperature": 0.1},
    ],
}


def main() -> None:
    """Search, train, evaluate, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of data")
    parser.add_argument("--out", type=Path, required=True, help="a folder for results, one file per run")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which no further run begins")
    parser.add_argument("--workers", type=int, default=1, help="processes that train at the same time")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--seen", type=int, default=76_800, help="texts seen in training, all epochs together")
    parser.add_argument("--limit", type=int, default=0, help="use only so many texts, to try the benchmark")
    parser.add_argument("--only", nargs="+", default=PARTS, choices=PARTS, help="parts to run")
    parser.add_argument("--tables", action="store_true", help="print the tables of finished runs and stop")
    args = parser.parse_args()
    if not args.tables:
        args.out.mkdir(parents=True, exist_ok=True)
        run(args)
        print(described())
    print(tables(args.out))


def run(args: argparse.Namespace) -> None:
    """Run all parts on a pool of processes, which keep the GPU busy while others read, embed or cluster."""
    until = time.monotonic() + 60 * args.minutes
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.workers, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        if "search" in args.only:
            # Half of the time at most: without figures of a setting, the rule chooses among the others.
            finish(pool, searches(), args, min(until, time.monotonic() + 30 * args.minutes))
        settings = chosen(args.out)
        (args.out / "chosen.json").write_text(json.dumps(settings, indent=1))
        tasks = [] if "sets" not in args.only else raws()
        for seed in args.seeds:  # every part has a seed before any has the next one
            tasks += finals(seed, settings) if "sets" in args.only else []
            tasks += grid("captions", CAPTIONS, seed) if "captions" in args.only else []
            tasks += grid("intents", INTENTS, seed) if "intents" in args.only and seed == args.seeds[0] else []
        finish(pool, tasks, args, until)


def searches() -> list[dict[str, Any]]:
    """Return the runs of the search: if time runs out, every method has had about as many settings."""
    return [
        {"part": "search", "name": f"search-{name}-{method}-{number}", "set": name, "method": method, "seed": 0}
        | {"settings": SEARCH[method][number], "number": number, "active": ACTIVE}
        for number in range(max(map(len, SEARCH.values())))
        for method in METHODS
        if number < len(SEARCH[method])
        for name in SEARCHED
    ]


def raws() -> list[dict[str, Any]]:
    """Return the evaluations of MiniLM as it is."""
    return [{"part": "sets", "name": f"raw-{name}", "set": name, "method": "raw", "seed": 0} for name in SETS]


def finals(seed: int, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of the comparison with one seed."""
    return [
        {"part": "sets", "name": f"{name}-{method}-{seed}", "set": name, "method": method, "seed": seed}
        | {"settings": settings.get(method, {}).get("settings", SEARCH[method][0]), "active": ACTIVE}
        for methods in (METHODS[:2], METHODS[2:])
        for name in SETS
        for method in methods
    ]


def grid(part: str, settings: dict[str, list[dict[str, Any]]], seed: int) -> list[dict[str, Any]]:
    """Return the runs of all settings with one seed."""
    return [
        {"part": part, "name": f"{part}-{method}-{number}-{seed}", "method": method, "seed": seed}
        | {"settings": each, "number": number}
        for method in settings
        for number, each in enumerate(settings[method])
    ]


def finish(pool: ProcessPoolExecutor, tasks: list[dict[str, Any]], args: argparse.Namespace, until: float) -> None:
    """Run the tasks that have no result yet; none begins after the time is over."""
    waiting = [task for task in tasks if not (args.out / f"{task['name']}.json").exists()]
    for future in [pool.submit(attempt, task, args, until - time.monotonic() + time.time()) for task in waiting]:
        print(future.result(), flush=True)


def attempt(task: dict[str, Any], args: argparse.Namespace, until: float) -> str:
    """Run one task and write its result; a failure is written and printed, and does not stop the others."""
    if time.time() > until:
        return f"{task['name']}: no time left"
    start = time.time()
    try:
        figures = run_one(task, args.data, args.out, args.seen, args.limit)
    except Exception:
        (args.out / f"{task['name']}.error").write_text(traceback.format_exc())
        return f"{task['name']}: failed: {traceback.format_exc(limit=-1).splitlines()[-1]}"
    path = args.out / f"{task['name']}.json"
    path.with_suffix(".tmp").write_text(json.dumps({**task, **figures, "seconds": time.time() - start}))
    path.with_suffix(".tmp").replace(path)
    return f"{task['name']}: {time.time() - start:.0f} s, {figures}"


if __name__ == "__main__":
    main()
