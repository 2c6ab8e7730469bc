"""Contrastive learning with and without the rectifier on whole graphs: MUTAG, PROTEINS and NCI1 beside GraphCL.

    python -m benchmarks.whole_graphs --data pytorch_DGCNN/data --out FOLDER [--seeds 0 1] [--graphs MUTAG]

Trains the recipe `graphs` as CL and as NCL and evaluates both layers by 10-fold cross-validation. Each finished run is
a line of `results.jsonl` in `--out` and is not repeated.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch

import nonneg
from benchmarks.graph_runs import Result, Runs, finished, of, parsed, spread
from benchmarks.graphs import structure
from nonneg.devices import choose_device
from nonneg.evaluate import cross_validation
from nonneg.training import load_recipe

# You et al. 2020 (GraphCL), table of unsupervised learning, SVM in 10 folds.
PUBLISHED = {"NCI1": "77.9 ± 0.4", "PROTEINS": "74.4 ± 0.5", "MUTAG": "86.8 ± 1.3"}  # the longest first


def trained(data: Path, name: str, seed: int, changes: dict[str, Any], out: Path) -> Result:
    torch.set_num_threads(1)
    config = load_recipe("graphs").replace(data=str(data), seed=seed, **changes)
    config = config.without_rectifier() if name == "cl" else config
    start = time.perf_counter()
    run = nonneg.train(config, out / "runs" / f"{data.stem}-{name}-{seed}", progress=False, overwrite=True)
    result: Result = {"graph": data.stem, "name": name, "seed": seed, "seconds": time.perf_counter() - start}
    model = nonneg.load(run)
    layers = model.embed(model.open(str(data)), "both", media=False, device=choose_device())
    for layer, features in layers.items():
        found = cross_validation(features)
        result |= {f"{layer}_svm": float(found.svm.mean()), f"{layer}_logistic": float(found.logistic.mean())}
    return result | structure(layers["projector"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder data of muhanzhang/pytorch_DGCNN")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--graphs", nargs="+", default=list(PUBLISHED))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", help="fields to change in all runs")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no run after this time")
    arguments = parser.parse_args()
    changes = dict(map(parsed, arguments.set))
    wanted = [
        (arguments.data / graph / f"{graph}.txt", name, seed, changes)
        for seed in arguments.seeds
        for graph in arguments.graphs
        for name in ("cl", "ncl")
    ]
    with Runs(arguments.jobs, arguments.minutes) as runs:
        runs.do(trained, wanted, arguments.out)
    results = finished(arguments.out)
    print("| | GraphCL | layer | CL, SVM | NCL, SVM | CL, logistic | NCL, logistic | sparsity | consistency (chance) |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|")
    for graph in arguments.graphs:
        ncl = of(results, graph, "ncl")
        for layer in ("encoder", "projector"):
            cells = [
                spread(of(results, graph, name), f"{layer}_{kind}")
                for kind in ("svm", "logistic")
                for name in ("cl", "ncl")
            ]
            cells += [spread(ncl, "sparsity"), f"{spread(ncl, 'consistency')} ({spread(ncl, 'chance')})"]
            cells[4:] = cells[4:] if layer == "projector" else ["–", "–"]
            print(f"| {graph} | {PUBLISHED.get(graph, '–')} | {layer} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
