"""Contrastive learning with and without the rectifier on the nodes of graphs: the tables of docs/results/graphs.md.

    python -m benchmarks.graphs --data FOLDER --out FOLDER                  # FOLDER/cora.npz, FOLDER/pubmed.npz, …
    python -m benchmarks.graphs --data FOLDER --out FOLDER --graphs cora --seeds 0 1 --jobs 2 --set epochs=5
    python -m benchmarks.graphs --data FOLDER --out FOLDER --search         # settings, compared on validation nodes

Trains the recipe `graph` on each graph with each seed as CL and as NCL, and evaluates all nodes: 20 random splits
10/10/80, logistic regression on rows of length 1, its strength chosen on validation nodes. Each finished run is a line
of `results.jsonl` in `--out` and is not repeated. `benchmarks.graphs_speed` compares time and memory with GRACE's code.
"""

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nonneg
from benchmarks.graph_settings import SEARCH, SEARCHED
from benchmarks.hardware import described
from nonneg import metrics
from nonneg.devices import choose_device
from nonneg.evaluate import match_features, random_splits
from nonneg.features import Features
from nonneg.training import TrainConfig, load_recipe

GRAPHS = ("physics", "cs", "pubmed", "dblp", "computers", "photo", "citeseer", "cora")  # the longest first
CL = {"rectify": "none", "share": 0.0, "first_share": 0.0, "dense_weight": 0.0}
SPLITS, SEARCH_SPLITS, SEARCH_SEED = 20, 8, 1000
# GRACE: Zhu et al. 2020, table 2. BGRL: Thakoor et al. 2022, table 1.
PUBLISHED = {
    "cora": ("83.3", "–"),
    "citeseer": ("72.1", "–"),
    "pubmed": ("86.7", "–"),
    "dblp": ("84.2", "–"),
    "photo": ("92.8", "93.2"),
    "computers": ("89.5", "90.3"),
    "cs": ("91.1", "93.3"),
    "physics": ("out of memory", "95.7"),
}
Result = dict[str, Any]
Run = tuple[Path, str, int, dict[str, Any]]  # data, name, seed, changes of the recipe


def config(graph: Path, seed: int, changes: dict[str, Any]) -> TrainConfig:
    """Return the recipe with changed fields; a field of the views is given as views.NAME."""
    views = {name.removeprefix("views."): value for name, value in changes.items() if name.startswith("views.")}
    changes = {name: value for name, value in changes.items() if not name.startswith("views.")}
    recipe = load_recipe("graph").replace(data=str(graph), seed=seed, **changes)
    table = recipe.modality.to_table()["views"]
    return recipe.replace(views={**table, **views}) if views else recipe


def trained(graph: Path, name: str, seed: int, changes: dict[str, Any], out: Path, is_search: bool = False) -> Result:
    """Train and evaluate one run; on validation nodes only if it belongs to a search."""
    torch.set_num_threads(1)
    settings = config(graph, seed, changes)
    folder = out / "runs" / f"{graph.stem}-{name}-{seed}"
    nonneg.train(settings, folder, progress=False, overwrite=True)
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    model = nonneg.load(folder)
    layers = model.embed(model.open(str(graph)), "both", media=False, device=choose_device())
    result = {"graph": graph.stem, "name": name, "seed": seed, "seconds": sum(line["seconds"] for line in log)}
    for layer, features in layers.items():
        if is_search:
            found = random_splits(features, SEARCH_SPLITS, SEARCH_SEED).validation
        else:
            found = random_splits(features, SPLITS).accuracies
            result[f"{layer}_deviation"] = float(found.std(ddof=1))
        result[layer] = float(found.mean())
    projector = layers["projector"]
    if not is_search:
        projector.save(features_of(out, result), overwrite=True)
    return result | structure(projector)


def structure(features: Features) -> Result:
    codes, labels = features.codes, np.asarray(features.labels)
    found = metrics.class_consistency(codes[labels >= 0], labels[labels >= 0])
    return {
        "sparsity": metrics.sparsity(codes),
        "live": metrics.activity(codes).live,
        "features": features.shape[1],
        "consistency": found.supported,
        "chance": found.floor,
    }


def features_of(out: Path, result: Result) -> Path:
    return out / "features" / f"{result['graph']}-{result['name']}-{result['seed']}.features"


# Many runs


def finished(out: Path) -> list[Result]:
    path = out / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_all(work: Callable[..., Result], wanted: Iterable[Run], arguments: argparse.Namespace) -> None:
    """Do the work of all runs that are not finished, so many side by side; begin nothing after the given minutes."""
    out, begun = arguments.out, time.perf_counter()
    known = {(result["graph"], result["name"], result["seed"]) for result in finished(out)}
    left = [each for each in wanted if (each[0].stem, each[1], each[2]) not in known]
    out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    with ProcessPoolExecutor(arguments.jobs, context) as pool, (out / "results.jsonl").open("a") as results:
        running: dict[Future[Result], Run] = {}
        while running or left:
            while left and len(running) < arguments.jobs:
                if time.perf_counter() - begun > 60 * arguments.minutes:
                    left = []
                else:
                    one = left.pop(0)
                    running[pool.submit(work, *one, out)] = one
            for run in wait(running, return_when=FIRST_COMPLETED).done:
                graph, name, seed, _ = running.pop(run)
                if run.exception() is not None:
                    print(f"{graph.stem} {name} {seed} failed: {run.exception()}", flush=True)
                    continue
                results.write(json.dumps(run.result()) + "\n")
                results.flush()
                print(run.result(), flush=True)
    print(f"{time.perf_counter() - begun:.0f} s, {arguments.jobs} side by side; {described()}")


def planned(arguments: argparse.Namespace) -> Iterator[Run]:
    changes = dict(map(parsed, arguments.set))
    for seed in arguments.seeds:
        for name, own in (SEARCH if arguments.search else {"cl": CL, "ncl": {}}).items():
            for graph in arguments.graphs:
                yield arguments.data / f"{graph}.npz", name, seed, {**changes, **own}


def parsed(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


# Tables


def tables(out: Path) -> Iterator[str]:
    results = finished(out)
    graphs = [graph for graph in PUBLISHED if any(result["graph"] == graph for result in results)]
    yield "| accuracy | GRACE | BGRL | CL | NCL | NCL − CL | CL, projector | NCL, projector |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for graph in graphs:
        cl, ncl = (of(results, graph, name) for name in ("cl", "ncl"))
        both = [result["seed"] for result in cl if result["seed"] in {other["seed"] for other in ncl}]
        gains = [value(ncl, seed) - value(cl, seed) for seed in both]
        cells = [spread(some, layer) for layer in ("encoder", "projector") for some in (cl, ncl)]
        gain = f"{100 * statistics.mean(gains):+.1f}" if gains else ""
        yield f"| {graph} | {' | '.join((*PUBLISHED[graph], *cells[:2], gain, *cells[2:]))} |"
    yield ""
    yield "| NCL | sparsity | live | consistency (chance) | above chance | cosine over seeds (shuffled) | CL's | s |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for graph in graphs:
        ncl = of(results, graph, "ncl")
        if ncl:
            chance = statistics.mean(result["chance"] for result in ncl)
            above = statistics.mean((r["consistency"] - r["chance"]) / (1 - r["chance"]) for r in ncl)
            live = statistics.mean(result["live"] / result["features"] for result in ncl)
            cells = [spread(ncl, "sparsity"), f"{100 * live:.1f}%"]
            cells += [f"{spread(ncl, 'consistency')} ({100 * chance:.1f})", f"{above:.2f}"]
            cells += [cosine(out, ncl, True), cosine(out, of(results, graph, "cl"), False), spread(ncl, "seconds", 1)]
            yield f"| {graph} | {' | '.join(cells)} |"


def cosine(out: Path, results: list[Result], signed: bool) -> str:
    """Return the mean cosine of matched features over all pairs of seeds, and that with shuffled nodes.

    Results that were copied from another machine have no features and are left out.
    """
    folders = [folder for result in results if (folder := features_of(out, result)).exists()]
    if len(folders) < 2:
        return "–"
    found = match_features(*map(Features.load, folders), signed=signed)
    return f"{found.agreement.value:.2f} ({found.floor:.2f})"


def of(results: list[Result], graph: str, name: str) -> list[Result]:
    return sorted((r for r in results if (r["graph"], r["name"]) == (graph, name)), key=lambda r: int(r["seed"]))


def value(results: list[Result], seed: int) -> float:
    return next(float(result["encoder"]) for result in results if result["seed"] == seed)


def spread(results: list[Result], key: str, factor: float = 100) -> str:
    values = [factor * result[key] for result in results]
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{deviation}" if values else "–"


def search_tables(out: Path) -> Iterator[str]:
    """Mean validation accuracy of each setting over the graphs and seeds, if all of them are finished."""
    results = finished(out)
    graphs = sorted({result["graph"] for result in results})
    yield f"| setting | {' | '.join(graphs)} | encoder | projector | sparsity | above chance |"
    yield "|---|" + "---:|" * (len(graphs) + 4)
    rows = []
    for name in dict.fromkeys(result["name"] for result in results):
        per_graph = [of(results, graph, name) for graph in graphs]
        some = [result for found in per_graph for result in found]
        above = statistics.mean((r["consistency"] - r["chance"]) / (1 - r["chance"]) for r in some)
        means = [100 * statistics.mean(r[key] for r in some) for key in ("encoder", "projector", "sparsity")]
        cells = [spread(found, "encoder") for found in per_graph] + [f"{mean:.2f}" for mean in means] + [f"{above:.2f}"]
        rows.append((not all(per_graph), -means[0], f"| {name} | {' | '.join(cells)} |"))
    yield from (row[-1] for row in sorted(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of GRAPH.npz, from examples/convert_graphs.py")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, help="default: all, or five for a search")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", help="fields to change in all runs")
    parser.add_argument("--search", action="store_true", help="compare settings on validation nodes")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no run after this time")
    arguments = parser.parse_args()
    arguments.graphs = arguments.graphs or (SEARCHED if arguments.search else GRAPHS)
    run_all(partial(trained, is_search=arguments.search), planned(arguments), arguments)
    print("\n".join((search_tables if arguments.search else tables)(arguments.out)))


if __name__ == "__main__":
    main()
