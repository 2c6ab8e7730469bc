"""Contrastive learning with and without the rectifier on the nodes of graphs: the tables of docs/results/graphs.md.

    python -m benchmarks.graphs --data FOLDER --out FOLDER                  # FOLDER/cora.npz, FOLDER/pubmed.npz, …
    python -m benchmarks.graphs --data FOLDER --out FOLDER --graphs cora --seeds 0 1 --jobs 2 --set epochs=5
    python -m benchmarks.graphs --data FOLDER --out FOLDER --search         # settings, compared on validation nodes
    python -m benchmarks.graphs --data FOLDER --out FOLDER --choose         # compare them first, then use the best one

Trains the recipe `graph` with the settings of an earlier search on each graph with each seed as CL and as NCL, and
evaluates all nodes: 20 random splits 10/10/80, and the public split if there is one; logistic regression on rows of
length 1, its strength chosen on validation nodes. Each finished run is a line of `results.jsonl` in `--out` and is not
repeated. `benchmarks.graphs_speed` compares time and memory with GRACE's code.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nonneg
from benchmarks.graph_runs import Result, Run, Runs, finished, of, parsed, spread
from benchmarks.graph_settings import (
    CHOSEN,
    CL,
    CL_LIGHT,
    GRAPHS,
    LIGHT,
    SEARCH,
    SEARCHED,
    above_chance,
    best_setting,
    best_views,
    steps_at_most,
)
from nonneg import metrics
from nonneg.devices import choose_device
from nonneg.evaluate import match_features, published_split, random_splits
from nonneg.features import Features
from nonneg.training import TrainConfig, load_recipe

SPLITS, SEARCH_SPLITS, SEARCH_SEED = 20, 8, 1000
PUBLIC = "_public"  # ends the name of an accuracy on the public split
MATCHED = ", matched"  # ends the name of a comparison over seeds
MATCHED_NODES = 5000  # over which features of different seeds are compared
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


def config(graph: Path, name: str, seed: int, changes: dict[str, Any]) -> TrainConfig:
    """Return the recipe with changed fields, as CL if the name begins so; a field of the views is given as views.NAME.

    A small batch of a large graph takes as long as a large one, because every step encodes the whole graph.
    """
    views = {name.removeprefix("views."): value for name, value in changes.items() if name.startswith("views.")}
    changes = {name: value for name, value in changes.items() if not name.startswith("views.")}
    recipe = load_recipe("graph").replace(data=str(graph), seed=seed)
    with np.load(graph) as arrays:
        nodes = int(arrays["adj_shape"][0])
    recipe = recipe.replace(**{"batch_size": steps_at_most(recipe.batch_size, nodes), **changes})
    table = recipe.modality.to_table()["views"]
    recipe = recipe.replace(views={**table, **views}) if views else recipe
    return recipe.without_rectifier() if name.startswith("cl") else recipe


def trained(graph: Path, name: str, seed: int, changes: dict[str, Any], out: Path, is_search: bool = False) -> Result:
    """Train and evaluate one run; on validation nodes only if it belongs to a search."""
    torch.set_num_threads(1)
    begun = time.perf_counter()
    folder = out / "runs" / f"{graph.stem}-{name}-{seed}"
    nonneg.train(config(graph, name, seed, changes), folder, progress=False, overwrite=True)
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    result = {"graph": graph.stem, "name": name, "seed": seed, "seconds": sum(line["seconds"] for line in log)}
    result["whole_seconds"] = time.perf_counter() - begun  # with reading data, logging, saving
    model = nonneg.load(folder)
    source = model.open(str(graph))
    layers = model.embed(source, "both", media=False, device=choose_device())
    for layer, features in layers.items():
        if is_search:
            found = random_splits(features, SEARCH_SPLITS, SEARCH_SEED).validation
        else:
            found = random_splits(features, SPLITS).accuracies
            result[f"{layer}_deviation"] = float(found.std(ddof=1))
            if source.split is not None:
                result[f"{layer}{PUBLIC}"] = float(published_split(features, source.split).accuracies[0])
        result[layer] = float(found.mean())
    projector = layers["projector"]
    if not is_search:
        rows = np.random.default_rng(0).permutation(len(projector))[:MATCHED_NODES]
        Features(projector.codes[rows]).save(features_of(out, graph.stem, name, seed), overwrite=True)
    result |= structure(projector)
    return result | {"evaluation_seconds": time.perf_counter() - begun - result["whole_seconds"]}


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


def features_of(out: Path, graph: str, name: str, seed: int) -> Path:
    return out / "features" / f"{graph}-{name}-{seed}.features"


def matched(graph: Path, name: str, seed: int, changes: dict[str, Any], out: Path) -> Result:
    """Return the mean cosine of matched features over all pairs of seeds, and that with shuffled nodes."""
    torch.set_num_threads(1)
    kind = name.removesuffix(MATCHED)
    folders = [features_of(out, graph.stem, kind, each) for each in changes["seeds"]]
    found = match_features(*map(Features.load, folders), signed=kind == "ncl")
    return {
        "graph": graph.stem,
        "name": name,
        "seed": seed,
        "cosine": found.agreement.value,
        "shuffled": found.floor,
    }


# Plans


def planned(arguments: argparse.Namespace, changes: dict[str, dict[str, Any]]) -> Iterator[Run]:
    """Yield the runs of the tables, with the changes of each graph."""
    for graph in arguments.graphs:
        for seed in arguments.seeds:
            for name in ("cl", "ncl"):
                yield arguments.data / f"{graph}.npz", name, seed, changes[graph]


def searched(arguments: argparse.Namespace, changes: dict[str, Any]) -> Iterator[Run]:
    """Yield the runs of a search: views of all graphs, the longest first, then settings."""
    plans = [(graph, name, own) for graph in GRAPHS[::-1] for name, own in ((CL, {}), (CL_LIGHT, LIGHT))]
    plans += [(graph, name, own) for name, own in SEARCH.items() for graph in SEARCHED]
    for graph, name, own in plans:
        if graph in arguments.graphs:
            yield arguments.data / f"{graph}.npz", name, 0, {**changes, **own}


def after(seeds: list[int], results: list[Result], run: Run) -> Iterator[Run]:
    """Yield the comparison of a graph's features over seeds, if all of these are trained."""
    graph, name, _, _ = run
    known = [result["seed"] for result in of(results, graph.stem, name)]
    if len(seeds) > 1 and not name.endswith(MATCHED) and set(seeds) <= set(known):
        yield graph, name + MATCHED, -1, {"seeds": seeds}


# Tables


def tables(out: Path) -> Iterator[str]:
    results = finished(out)
    graphs = [graph for graph in PUBLISHED if any(result["graph"] == graph for result in results)]
    yield "| accuracy | GRACE | BGRL | CL | NCL | NCL − CL | CL, projector | NCL, projector |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for graph in graphs:
        cl, ncl = (of(results, graph, name) for name in ("cl", "ncl"))
        cells = [spread(some, layer) for layer in ("encoder", "projector") for some in (cl, ncl)]
        gain = difference([gains(results, graph)])
        yield f"| {graph} | {' | '.join((*PUBLISHED[graph], *cells[:2], gain, *cells[2:]))} |"
    yield f"| mean | | | | | {difference([gains(results, graph) for graph in graphs])} | | |"
    yield ""
    yield "| accuracy, public split | CL | NCL | CL, projector | NCL, projector |"
    yield "|---|---:|---:|---:|---:|"
    for graph in graphs:
        both = [of(results, graph, name) for name in ("cl", "ncl")]
        if all(f"encoder{PUBLIC}" in result for some in both for result in some):
            cells = [spread(some, layer + PUBLIC) for layer in ("encoder", "projector") for some in both]
            yield f"| {graph} | {' | '.join(cells)} |"
    yield ""
    yield "| NCL | sparsity | live | consistency (chance) | above chance | cosine over seeds (shuffled) | CL's | s |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for graph in graphs:
        ncl = of(results, graph, "ncl")
        if ncl:
            chance = statistics.mean(result["chance"] for result in ncl)
            live = statistics.mean(result["live"] / result["features"] for result in ncl)
            cells = [spread(ncl, "sparsity"), f"{100 * live:.1f}%"]
            cells += [f"{spread(ncl, 'consistency')} ({100 * chance:.1f})", f"{above_chance(ncl):.2f}"]
            cells += [cosine(results, graph, "ncl"), cosine(results, graph, "cl"), spread(ncl, "seconds", 1)]
            yield f"| {graph} | {' | '.join(cells)} |"


def cosine(results: list[Result], graph: str, name: str) -> str:
    found = of(results, graph, name + MATCHED)
    return f"{found[0]['cosine']:.2f} ({found[0]['shuffled']:.2f})" if found else "–"


def gains(results: list[Result], graph: str) -> list[float]:
    """Return NCL's accuracy minus CL's for each seed that both have."""
    cl, ncl = ({r["seed"]: float(r["encoder"]) for r in of(results, graph, name)} for name in ("cl", "ncl"))
    return [ncl[seed] - cl[seed] for seed in ncl if seed in cl]


def difference(graphs: list[list[float]]) -> str:
    """Return the mean over graphs of each one's mean gain, with its standard error over seeds."""
    some = [found for found in graphs if found]
    if not some:
        return "–"
    mean = statistics.mean(map(statistics.mean, some))
    if min(map(len, some)) < 2:
        return f"{100 * mean:+.2f}"
    error = math.sqrt(sum(statistics.variance(found) / len(found) for found in some)) / len(some)
    return f"{100 * mean:+.2f} ± {100 * error:.2f}"


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
        means = [100 * statistics.mean(r[key] for r in some) for key in ("encoder", "projector", "sparsity")]
        cells = [spread(found, "encoder") for found in per_graph] + [f"{mean:.2f}" for mean in means]
        cells.append(f"{above_chance(some):.2f}")
        rows.append((not all(per_graph), -means[0], f"| {name} | {' | '.join(cells)} |"))
    yield from (row[-1] for row in sorted(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of GRAPH.npz, from examples/convert_graphs.py")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=GRAPHS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", help="fields to change in all runs")
    parser.add_argument("--search", action="store_true", help="compare settings on validation nodes")
    parser.add_argument("--choose", action="store_true", help="compare settings, then evaluate the best one")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no training after this time")
    arguments = parser.parse_args()
    changes = dict(map(parsed, arguments.set))
    of_graphs = {graph: {**CHOSEN[graph], **changes} for graph in arguments.graphs}
    with Runs(arguments.jobs, arguments.minutes) as runs:
        if arguments.search or arguments.choose:
            found = arguments.out / "search"
            share = 0.35 if arguments.choose else 1.0  # the rest of the time is for the tables
            runs.do(partial(trained, is_search=True), searched(arguments, changes), found, share=share)
            print("\n".join(search_tables(found)), flush=True)
        if arguments.choose:
            name = best_setting(finished(found))
            views = {graph: best_views(finished(found), graph) for graph in arguments.graphs}
            print(f"Chosen: {name}; lighter views: {', '.join(graph for graph in views if views[graph])}", flush=True)
            of_graphs = {graph: {**SEARCH[name], **views[graph], **changes} for graph in arguments.graphs}
        if not arguments.search:
            follow = partial(after, arguments.seeds)
            runs.do(trained_or_matched, planned(arguments, of_graphs), arguments.out, follow)
            print("\n".join(tables(arguments.out)))


def trained_or_matched(graph: Path, name: str, seed: int, changes: dict[str, Any], out: Path) -> Result:
    return (matched if name.endswith(MATCHED) else trained)(graph, name, seed, changes, out)


if __name__ == "__main__":
    main()
