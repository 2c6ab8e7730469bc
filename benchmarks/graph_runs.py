"""Runs several trainings at once and writes one line of JSON for each; used by the benchmarks of graphs."""

import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, Self

from benchmarks.hardware import described

Result = dict[str, Any]
Run = tuple[Path, str, int, dict[str, Any]]  # data, name, seed, changes of the recipe


class Runs:
    """Processes that do runs, so many side by side.

    Args:
        jobs: how many.
        minutes: begin no further run after this time.
    """

    def __init__(self, jobs: int, minutes: float) -> None:
        self.jobs, self.minutes, self.begun = jobs, minutes, time.perf_counter()
        context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
        self.pool = ProcessPoolExecutor(jobs, context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.pool.shutdown()
        print(f"{time.perf_counter() - self.begun:.0f} s, {self.jobs} side by side; {described()}", flush=True)

    def do(
        self,
        work: Callable[..., Result],
        wanted: Iterable[Run],
        out: Path,
        after: Callable[[list[Result], Run], Iterable[Run]] = lambda results, run: (),
        share: float = 1.0,
    ) -> None:
        """Do the work of all runs that are not finished; `after` returns further runs that a finished one permits.

        These are short: they are begun at any time. Others are begun within a share of the minutes.
        """
        results, wanted = finished(out), list(wanted)
        known = {_key_of(result) for result in results}
        left = [each for each in wanted if _key(each) not in known]
        further = {_key(more): more for each in wanted if _key(each) in known for more in after(results, each)}
        short = [more for key, more in further.items() if key not in known]
        out.mkdir(parents=True, exist_ok=True)
        running: dict[Future[Result], Run] = {}
        with (out / "results.jsonl").open("a") as lines:
            while running or left or short:
                while (left or short) and len(running) < self.jobs:
                    is_late = not short and time.perf_counter() - self.begun > 60 * self.minutes * share
                    one = (short or left).pop(0)
                    if not is_late:
                        running[self.pool.submit(work, *one, out)] = one
                for run in wait(running, return_when=FIRST_COMPLETED).done:
                    one = running.pop(run)
                    if run.exception() is not None:
                        print(f"{one[0].stem} {one[1]} {one[2]} failed: {run.exception()!r}", flush=True)
                        continue
                    results.append(run.result())
                    lines.write(json.dumps(run.result()) + "\n")
                    lines.flush()
                    print(f"{time.perf_counter() - self.begun:.0f} s", run.result(), flush=True)
                    short += after(results, one)


def _key(run: Run) -> tuple[str, str, int]:
    return run[0].stem, run[1], run[2]


def _key_of(result: Result) -> tuple[str, str, int]:
    return result["graph"], result["name"], result["seed"]


def finished(out: Path) -> list[Result]:
    path = out / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def parsed(text: str) -> tuple[str, Any]:
    """Return the name and the value of FIELD=VALUE."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def of(results: list[Result], graph: str, name: str) -> list[Result]:
    return sorted((r for r in results if (r["graph"], r["name"]) == (graph, name)), key=lambda r: int(r["seed"]))


def spread(results: list[Result], key: str, factor: float = 100) -> str:
    values = [factor * result[key] for result in results]
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{deviation}" if values else "–"
