"""Fashion products: pictures and names that share features, on the public queries of Marqo's KAGL benchmark.

    python -m benchmarks.fashion …                # makes the folder of the data, see there
    python -m benchmarks.pairs --data fashion --out results --seeds 0 1 2 --minutes 20
    python -m benchmarks.pairs --data fashion --out results --table

Trains CL and NCL with the recipe `pairs`: the same networks, data, views and number of epochs. First, short runs choose
the temperature of each method among the same four: the one with the highest R@10 on 1,000 other names of the training
part, without any product of a public query. Their speed decides the number of epochs: as many as all runs can have in
the time, with fewer seeds if that would be less than 20. A last run has NCL with a temperature of 0.2, which was more
readable in short runs. Every run is a process of its own and writes one JSON file when it is finished; runs whose file
exists are skipped, and a run that fails is tried once more. `benchmarks.plain_clip` compares the speed.

Published figures are zero-shot figures of large models; these models are small and trained on products of the same
shop, with pictures of 60 x 80 pixels.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.fashion import Task, attributes, task
from benchmarks.hardware import described
from nonneg import metrics
from nonneg.codes import dense, unit_rows
from nonneg.features import Features
from nonneg.modalities import Source
from nonneg.models import Model, load
from nonneg.rectify import NonNegative
from nonneg.training import TrainConfig, load_recipe, read_log, train

PUBLISHED = {  # R@1, R@10, zero-shot, of marqo-ai/marqo-FashionCLIP
    "Marqo-FashionSigLIP": (0.179, 0.489),
    "ViT-B-16-SigLIP": (0.169, 0.468),
    "OpenCLIP ViT-B-16": (0.155, 0.435),
    "FashionCLIP2.0": (0.122, 0.404),
}
SETTINGS: dict[str, dict[str, Any]] = {  # the same for both methods
    "learned": {"temperature": 0.07, "learn_temperature": True},
    "0.05": {"temperature": 0.05},
    "0.1": {"temperature": 0.1},
    "0.2": {"temperature": 0.2},
}
_READABLE = "NCL-0-0.2"
_SHARES = (0.05, 0.1)  # other shares in use that the first seed of NCL is measured at, without training
_AT_ONCE = 500  # queries
_EPOCHS = (20, 40)  # of a run: fewer only if there is time for one seed alone; at most
_SHORT = 6  # epochs of a run that chooses a setting
_VALIDATION = "validation"
_LEAST = 60.0  # seconds in which no run can be finished
_SURE = 0.75  # share of the measured speed that the number of epochs counts on


def config_for(given: argparse.Namespace, method: str, setting: str, seed: int, epochs: int) -> TrainConfig:
    """Return the recipe `pairs` for these pictures, without or with a rectifier."""
    config = load_recipe("pairs")
    stem = "medium" if "resnet" in given.encoder else "standard"
    config = config.replace(
        data=str(given.data / "products.parquet"),
        first=replace(config.modality.first, stem=stem),  # type: ignore[attr-defined]
        labels="articleType",
        encoder=given.encoder,
        epochs=epochs,
        warmup_epochs=max(1, epochs // 10),
        batch_size=given.batch_size,
        lr=config.lr * (given.batch_size / config.batch_size) ** 0.5,
        features=given.features or config.features,
        precision="bf16-mixed" if torch.cuda.is_available() else "32-true",
        compile=given.compile,
        seed=seed,
    )
    if method == "CL":
        config = config.without_rectifier().replace(standardise=False)
    return config.replace(**SETTINGS[setting])


@dataclass(frozen=True)
class Opened:
    """The pairs of all products, and the task."""

    pairs: Source
    task: Task
    folder: Path

    def part(self, rows: Any) -> Source:
        return self.pairs.take(np.asarray(rows))


def opened(given: argparse.Namespace, config: TrainConfig, validate: bool) -> Opened:
    asked = task(given.data, validate)
    if given.limit:
        few = dict(list(asked.queries.items())[: given.limit])
        documents = np.union1d(asked.held_out[: given.limit], asked.documents[: given.limit])
        asked = Task(asked.train[: given.limit], asked.held_out[: given.limit], documents, few)
    return Opened(config.modality.open(config.data, progress=False), asked, given.data)


def trained(config: TrainConfig, source: Source, out: Path, title: str) -> tuple[Path, str]:
    """Train; if the whole step cannot be compiled on this machine, with less of it compiled. Return what was used."""
    for path in dict.fromkeys((config.compile, "forward", "off")):
        try:
            chosen = config.replace(compile=path)
            return train(chosen, out, source=source, overwrite=True, progress=sys.stdout.isatty(), title=title), path
        except Exception as error:  # compilers raise anything
            cause = error.__cause__ or error  # if memory is short, it says who has how much
            print(f"{title}: compile {path} failed: {error} ({type(cause).__name__}: {cause})", flush=True)
        gc.collect()  # a recorded step would keep its memory
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    raise SystemExit(f"{title}: training failed")


def measured(model: Model, data: Opened, active: int) -> dict[str, float]:
    """Measure a run: retrieval over all documents, the rest on those that queries ask for."""
    queries = data.task.queries
    pictures = model.embed(data.part(data.task.documents), media=False, side="image")
    ids = {pictures.id(row): row for row in range(len(pictures))}
    words = model.embed(list(queries), media=False, side="text")
    wanted = [[ids[id] for id in each if id in ids] for each in queries.values()]
    found = {f"recall_at_{k}": recall(words, pictures, wanted, k) for k in (1, 10)}
    held_out = model.open(data.part(data.task.held_out), side="image")
    partners = model.modality.partners(held_out)
    assert partners is not None
    own, theirs = (model.embed(each, media=False) for each in (held_out, partners[0]))
    a, b = (sparse(each.codes, model, active) for each in (own, theirs))
    auc = metrics.partner_auc(a, b)
    found |= {"auc": auc.value, "auc_features": auc.defined, "sparsity": metrics.sparsity(own.codes)}
    found["active"] = float((a > 0).sum(1).mean())
    by_id = {id: row for row, id in enumerate(data.pairs.samples.sources[0].ids)}
    rows = np.array([by_id[own.id(row)] for row in range(len(own))])
    for name, labels in attributes(data.folder, rows).items():
        consistency = metrics.class_consistency(a, labels)
        found |= {f"{name}_excess": consistency.supported - consistency.floor, f"{name}_floor": consistency.floor}
        found[f"{name}_consistency"] = consistency.supported
        found["live"] = consistency.live / own.shape[1]
    names = model.embed(list(own.label_names), media=False, side="text")
    hits = metrics.group_recall_at_k(own.codes, names.codes, own.labels, np.arange(len(names)), 1)
    return {**found, "zero_shot": float(hits.mean()), "classes": float(len(names))}


def recall(words: Features, pictures: Features, wanted: list[list[int]], k: int) -> float:
    """Return the mean over queries of the share of the wanted documents among the first k, as BEIR does."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (unit_rows(torch.tensor(dense(each.codes), device=device)) for each in (words, pictures))
    shares: list[float] = []
    for start in range(0, len(a), _AT_ONCE):
        nearest = (a[start : start + _AT_ONCE] @ b.T).topk(k).indices.tolist()
        asked = wanted[start : start + _AT_ONCE]
        shares += [len(set(own) & set(rows)) / max(1, len(own)) for own, rows in zip(asked, nearest, strict=True)]
    return float(np.mean(shares))


def sparse(codes: Any, model: Model, active: int) -> Any:
    """Return rectified codes, and of others as many of the largest values as the rectified model has active."""
    if model.config.rectify != "none":
        return dense(codes)
    return NonNegative("top_k", active)(torch.tensor(dense(codes))).numpy()


def run_one(given: argparse.Namespace, name: str, epochs: int) -> dict[str, Any]:
    """Train and measure one run, such as `CL-0`, `NCL-0-0.2` or `validation-CL-learned`."""
    start = time.perf_counter()
    is_validation = name.startswith(_VALIDATION)
    method, *rest = name.removeprefix(f"{_VALIDATION}-").split("-")
    seed = 0 if is_validation else int(rest.pop(0))
    setting = rest[0] if rest else json.loads((given.out / "chosen.json").read_text())[method]
    config = config_for(given, method, setting, seed, epochs)
    data = opened(given, config, is_validation)
    source = data.part(data.task.train)
    run, path = trained(config, source, (given.runs or given.out / "runs") / name, name)
    log = read_log(run)
    end = (run / "log.jsonl").stat().st_mtime  # when the last epoch ended
    ends = end - np.cumsum([0.0, *(each["seconds"] for each in log[:0:-1])])  # and the others, the last one first
    line = {
        **{"name": name, "method": method, "setting": setting, "seed": seed, "epochs": epochs, "compile": path},
        **{"pairs": len(source), "held_out": len(data.task.held_out), "documents": len(data.task.documents)},
        **{key: log[-1].get(key, getattr(config, key)) for key in ("temperature", "dense_temperature")},
        "loss": log[-1]["loss"],
        "pairs_per_second": float(max(each["views_per_second"] for each in log) / 2),
        "training_seconds": sum(each["seconds"] for each in log),
        "after_first_epoch": [float(ends[-1]), float(ends[0])],  # by the clock: the first one includes compiling
    }
    model = load(run).to("cuda" if torch.cuda.is_available() else "cpu")
    ncl = config_for(given, "NCL", "learned", 0, epochs)
    line |= measured(model, data, round(ncl.share * ncl.features))
    if method == "NCL" and seed == 0 and not is_validation:
        line["at_share"] = {share: measured(model.at_share(share, source), data, 0) for share in _SHARES}
    names = ("encoder", "features", "share", "batch_size", "lr")
    line |= {"settings": {key: getattr(config, key) for key in names}, "hardware": described()}
    return {**line, **memory_used(), "seconds": time.perf_counter() - start}


def memory_used() -> dict[str, float]:
    """Return the most memory that this process has had, in GB."""
    used = {"host_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}
    if torch.cuda.is_available():
        used["device_gb"] = torch.cuda.max_memory_reserved() / 1e9
    return used


class Clock:
    """Runs processes side by side until the time is over."""

    def __init__(self, given: argparse.Namespace) -> None:
        left = given.deadline - time.time() if given.deadline else 60 * given.minutes
        self.given, self.end = given, time.monotonic() + left

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def run(self, names: list[str], epochs: int, workers: int, least: float) -> None:
        """Run these, `workers` at a time, and start none with less than `least` seconds left; try failed ones again."""
        waiting = [name for name in names if not (self.given.out / f"{name}.json").exists()]
        running: dict[str, subprocess.Popen[bytes]] = {}
        again = set(waiting)
        while (waiting and self.left > least) or running:
            while waiting and len(running) < workers and self.left > least:
                name = waiting.pop(0)
                command = [sys.executable, "-m", "benchmarks.pairs", *sys.argv[1:], "--one", name]
                with (self.given.out / f"{name}.log").open("ab") as log:
                    command += ["--epochs", str(epochs)]
                    running[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            time.sleep(0.2)
            for name, process in list(running.items()):
                if self.left <= 0:
                    process.kill()
                if process.poll() is not None:
                    del running[name]
                    print(f"{name}: exit code {process.returncode}, {self.left:.0f} s left", flush=True)
                    if process.returncode and name in again:
                        again.remove(name)
                        waiting.append(name)
        for name in waiting:
            print(f"{name}: not started, no time left", flush=True)


def choose(given: argparse.Namespace, clock: Clock) -> tuple[list[int], int]:
    """Choose the setting of each method; return the seeds that there is time for, and the epochs of each run."""
    short = [f"{_VALIDATION}-{method}-{name}" for name in SETTINGS for method in given.methods]
    done = {name for name in short if (given.out / f"{name}.json").exists()}
    if any(not any(method in name.split("-") for name in done) for method in given.methods):
        clock.run(short, min(given.epochs or _SHORT, _SHORT), given.workers, _LEAST)
    lines = [read(given.out / f"{name}.json") for name in short if (given.out / f"{name}.json").exists()]
    chosen: dict[str, str] = {}
    for line in sorted(lines, key=lambda line: line["recall_at_10"]):
        chosen[line["method"]] = line["setting"]
    if set(chosen) != set(given.methods):
        raise SystemExit(f"the runs that choose settings failed, see {given.out / short[0]}.log")
    (given.out / "chosen.json").write_text(json.dumps(chosen) + "\n")
    print(f"chosen: {chosen}", flush=True)
    if given.epochs:
        return given.seeds, given.epochs
    speed, start = speed_together(lines)
    seeds, epochs = list(given.seeds), 0
    while seeds and epochs < _EPOCHS[0]:
        runs = len(seeds) * len(given.methods) + 1
        epochs = int(_SURE * speed * (clock.left - start * -(-runs // given.workers)) / runs / lines[0]["pairs"])
        tried, seeds = seeds, seeds[:-1]
    print(f"{speed:,.0f} pairs/s, {start:.0f} s to start, {clock.left:.0f} s left: {epochs} epochs, seeds {tried}")
    return tried, max(1, min(_EPOCHS[1], epochs))


def speed_together(lines: list[dict[str, Any]]) -> tuple[float, float]:
    """Return the pairs per second of runs side by side, all together, and the most seconds one takes besides."""
    covered, last = 0.0, 0.0
    for start, end in sorted(line["after_first_epoch"] for line in lines):
        covered += max(0.0, end - max(start, last))
        last = max(last, end)
    pairs = sum(line["pairs"] * (line["epochs"] - 1) for line in lines)
    besides = max(line["seconds"] - (line["after_first_epoch"][1] - line["after_first_epoch"][0]) for line in lines)
    return pairs / max(covered, 1e-9), besides


def table(given: argparse.Namespace) -> None:
    """Print all finished runs as tables of docs/results/pairs.md."""
    lines = [read(file) for file in sorted(given.out.glob("*.json")) if file.name != "chosen.json"]
    shown = {
        "R@1": "recall_at_1",
        "R@10": "recall_at_10",
        "zero-shot articleType": "zero_shot",
        "agreement, median AUC": "auc",
        **{f"{name} above chance": f"{name}_excess" for name in ("articleType", "baseColour", "gender")},
        "articleType": "articleType_consistency",
        "live": "live",
        "sparsity": "sparsity",
    }
    for is_validation in (True, False):
        some = [line for line in lines if line["name"].startswith(_VALIDATION) == is_validation]
        some += [
            {**line, **at, "name": f"{line['name']} at {s}"}
            for line in some
            for s, at in line.get("at_share", {}).items()
        ]
        print("| | " + " | ".join(line["name"] for line in some) + " |\n|---|" + "---:|" * len(some))
        for title, key in shown.items():
            print(f"| {title} | " + " | ".join(f"{100 * line[key]:.1f}" for line in some) + " |")
        for key, digits in {"temperature": 3, "epochs": 0, "pairs_per_second": 0, "host_gb": 1, "device_gb": 1}.items():
            print(f"| {key} | " + " | ".join(f"{line.get(key, float('nan')):.{digits}f}" for line in some) + " |")
        print()


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())  # type: ignore[no-any-return]


def settings_parser(text: str | None) -> argparse.ArgumentParser:
    """Return a parser of the settings that decide how a run is trained."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that benchmarks.fashion writes")
    parser.add_argument("--out", type=Path, required=True, help="for the results")
    parser.add_argument("--encoder", default="resnet18+transformer")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--features", type=int, default=0, help="0: those of the recipe")
    parser.add_argument("--compile", default="auto")
    parser.add_argument("--limit", type=int, default=0, help="use only so many products, to try the benchmark")
    return parser


def parsed() -> argparse.Namespace:
    parser = settings_parser(__doc__)
    parser.add_argument("--runs", type=Path, help="for the trained runs; by default a folder in --out")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="+", choices=("CL", "NCL"), default=["CL", "NCL"])
    parser.add_argument("--epochs", type=int, default=0, help="0: as many as the time allows")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--deadline", type=float, default=0, help="Unix time at which to stop, instead of --minutes")
    parser.add_argument("--workers", type=int, default=4, help="runs side by side")
    parser.add_argument("--table", action="store_true", help="only print the finished runs as tables")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    given = parsed()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.one:
        line = run_one(given, given.one, given.epochs)
        (given.out / f"{given.one}.json").write_text(json.dumps(line, indent=1) + "\n")
        print(json.dumps({key: round(v, 4) if isinstance(v, float) else v for key, v in line.items()}))
        return
    if given.table:
        table(given)
        return
    clock = Clock(given)
    config = config_for(given, "NCL", "learned", 0, 1)
    opened(given, config, False)  # decodes the pictures into the cache, once for all runs
    print(f"data: {clock.left:.0f} s left", flush=True)
    seeds, epochs = choose(given, clock)
    names = [f"{method}-{seed}" for seed in seeds for method in given.methods]
    if json.loads((given.out / "chosen.json").read_text()).get("NCL", "0.2") != "0.2":
        names.append(_READABLE)
    clock.run(names, epochs, given.workers, _LEAST)
    table(given)
    for model, (first, ten) in PUBLISHED.items():
        print(f"{model} (published, zero-shot): R@1 {first:.3f}, R@10 {ten:.3f}")


if __name__ == "__main__":
    main()
