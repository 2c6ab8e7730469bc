"""MiniLM adapted without labels to five sets of short texts, and a transformer from scratch on captions of pictures.

    python -m benchmarks.text --data FOLDER --out results --workers 12 --minutes 7
    python -m benchmarks.text --out results --tables

`benchmarks.text_data` says what the folder holds. First, settings are searched on a validation part of the training
rows of two sets (for captions on dev pairs of STS-B), and chosen by rule; then CL, NCL and sentence-transformers are
trained on all five sets with three seeds and evaluated on test rows that nothing has seen. Each run writes one JSON
file at once; a second call continues. The protocol and the results are in docs/results/text.md, speed and memory in
`benchmarks.text_speed`.
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
from benchmarks.text_tables import chosen, tables, without_rectifier

METHODS = ("ncl", "cl", "dense", "sparse")
SEARCHED = ("stackoverflow", "agnews")
FADE = {"first_dense_weight": 0.5, "dense_weight": 0.0}
PARTS = ["search", "sets", "captions", "intents"]
ACTIVE = 61  # features per text, in every sparse method
FEATURES = 1024  # of CL in the search; later it has as many as NCL


def wide(features: int, temperature: float, dense_temperature: float, **more: Any) -> dict[str, Any]:
    """Return settings of NCL in which about 61 features per text are active."""
    temperatures = {"temperature": temperature, "dense_temperature": dense_temperature}
    return {"features": features, "share": round(ACTIVE / features, 4), **temperatures, **more}


# Five settings of CL and of NCL; the first two numbers of NCL are the temperatures after and before the rectifier.
# With few features, each one is active on a larger share of the texts, which a search over the width therefore decides.
SLOW = {"encoder_lr": 0.02}
SEARCH: dict[str, list[dict[str, Any]]] = {
    "ncl": [
        wide(1024, 0.2, 0.1, **FADE, delete=0.5, **SLOW),
        wide(4096, 0.2, 0.1, **FADE, delete=0.5, **SLOW),
        wide(640, 0.2, 0.1, **FADE, delete=0.5, **SLOW),
        wide(1024, 0.2, 0.1, **FADE, delete=0.3, **SLOW),
        wide(1024, 0.1, 0.05, dense_weight=0.5, delete=0.5, **SLOW),
    ],
    "cl": [
        {"features": FEATURES, "temperature": temperature, "delete": delete, **SLOW}
        for temperature, delete in ((0.1, 0.5), (0.1, 0.3), (0.2, 0.5), (0.2, 0.3), (0.05, 0.5))
    ],
    "dense": [{"delete": delete, "lr": 2e-5} for delete in (0.5, 0.3)],
    "sparse": [{"delete": 0.5, "lr": 1e-3, "encoder_lr": rate} for rate in (0.02, 0.0)],
}
CAPTIONS = {
    "cl": [{"features": 1024, "temperature": temperature} for temperature in (0.05, 0.1, 0.03)],
    "ncl": [wide(1024, 0.2, 0.1, **FADE), wide(1024, 0.1, 0.05, **FADE), wide(1024, 0.1, 0.05, dense_weight=0.5)],
}
# The recipe `text` from scratch on the bundled intents: one change at a time, then two.
INTENTS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.05, "dense_temperature": 0.05},
    {"temperature": 0.2, "dense_temperature": 0.2},
    {"temperature": 0.2},
    {"delete": 0.4},
    {"delete": 0.7},
    {"share": 0.08},
    {"share": 0.12},
    {"share": 0.08, "temperature": 0.2},
    {"lr": 0.001},
]


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
    with ProcessPoolExecutor(args.workers, context, initializer=torch.set_num_threads, initargs=(2,)) as pool:
        first = grid("captions", CAPTIONS, args.seeds[0]) if "captions" in args.only else []
        first += searches() if "search" in args.only else []
        # Half of the time at most: without figures of a setting, the rule chooses among the others.
        finish(pool, first, args, min(until, time.monotonic() + 30 * args.minutes))
        settings = {"sets": chosen(args.out), "captions": chosen(args.out, "captions")}
        (args.out / "chosen.json").write_text(json.dumps(settings, indent=1))
        finish(pool, planned(args, settings), args, until)


def planned(args: argparse.Namespace, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs after the search: all methods with the first seed; CL and NCL, then others with more seeds."""
    first, *more = args.seeds
    best = {method: found["number"] for method, found in settings["captions"].items()}
    tasks = [*raws(), *finals(first, settings["sets"])] if "sets" in args.only else []
    if "captions" in args.only:
        tasks += [task for seed in args.seeds for task in grid("captions", CAPTIONS, seed, best)]
    for methods in (METHODS[:2], METHODS[2:]):
        every = [task for seed in more for task in finals(seed, settings["sets"])]
        tasks += [task for task in every if task["method"] in methods and "sets" in args.only]
    return tasks + (intents(first) if "intents" in args.only else [])


def intents(seed: int) -> list[dict[str, Any]]:
    """Return the runs of the recipe `text`: NCL with each setting, and CL once with each that changes it."""
    plain = [without_rectifier(each) for each in INTENTS]
    distinct = [each for number, each in enumerate(plain) if each not in plain[:number]]
    return grid("intents", {"ncl": INTENTS, "cl": distinct}, seed)


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
    """Return the runs of the comparison with one seed; all methods have as many features as NCL."""
    best = {method: settings.get(method, {}).get("settings", SEARCH[method][0]) for method in METHODS}
    features = best["ncl"]["features"]
    best["cl"] = {**best["cl"], "features": features}
    return [
        {"part": "sets", "name": f"{name}-{method}-{seed}", "set": name, "method": method, "seed": seed}
        | {"settings": best[method], "active": ACTIVE, "features": features}
        for methods in (METHODS[:2], METHODS[2:])
        for name in SETS
        for method in methods
    ]


def grid(
    part: str, settings: dict[str, list[dict[str, Any]]], seed: int, only: dict[str, int] | None = None
) -> list[dict[str, Any]]:
    """Return the runs of all settings with one seed, or of one setting per method."""
    return [
        {"part": part, "name": f"{part}-{method}-{number}-{seed}", "method": method, "seed": seed}
        | {"settings": each, "number": number}
        for method in settings
        for number, each in enumerate(settings[method])
        if only is None or only.get(method) == number
    ]


def finish(pool: ProcessPoolExecutor, tasks: list[dict[str, Any]], args: argparse.Namespace, until: float) -> None:
    """Run the tasks that have no result yet; none begins after the time is over."""
    waiting = [task for task in tasks if not is_finished(task, args.out)]
    for future in [pool.submit(attempt, task, args, until - time.monotonic() + time.time()) for task in waiting]:
        print(future.result(), flush=True)


def is_finished(task: dict[str, Any], out: Path) -> bool:
    """Return whether there is a result with the same settings."""
    path = out / f"{task['name']}.json"
    return path.exists() and json.loads(path.read_text()).get("settings") == task.get("settings")


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
