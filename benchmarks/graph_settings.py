"""Settings that `benchmarks.graphs --search` compares: changes of the recipe `graph` by name; and how one is chosen."""

import statistics
from typing import Any

GRAPHS = ("cora", "citeseer", "photo", "dblp", "computers", "pubmed", "cs", "physics")
# On the others, only the views are chosen.
SEARCHED = ("cs", "photo", "citeseer", "cora")
MOST_STEPS = 16  # per epoch
LEAST_SPARSITY, LEAST_LIVE, LEAST_ABOVE_CHANCE = 0.9, 0.95, 0.45
_COMPARED = ("encoder", "projector", "sparsity")

WIDE = {"features": 1024}
SEARCH: dict[str, dict[str, Any]] = {
    "ncl": {},
    "ncl-1024": WIDE,
    "ncl-1024-fading": {**WIDE, "first_dense_weight": 0.5, "dense_weight": 0.0},
    "ncl-1024-tau0.6": {**WIDE, "temperature": 0.6},
    "ncl-1024-dense0.8": {**WIDE, "dense_weight": 0.8},
    "ncl-1024-share0.08": {**WIDE, "share": 0.08},
    "ncl-1024-norm": {**WIDE, "projector_batch_norm": True},
}
# Views that keep more of the attributes, compared with the recipe's as CL on each graph, as the peers do.
LIGHT = {"views.drop_edges": [0.3, 0.3], "views.mask_attributes": [0.1, 0.2]}
CL, CL_LIGHT = "cl", "cl-light"
# What a search on one H200 chose; docs/results/graphs.md shows it.
CHOSEN: dict[str, dict[str, Any]] = {
    graph: {**WIDE, **(LIGHT if graph in ("photo", "computers", "pubmed", "cs") else {})} for graph in GRAPHS
}


def steps_at_most(batch_size: int, nodes: int) -> int:
    """Double a batch until an epoch has few steps."""
    while nodes // batch_size > MOST_STEPS:
        batch_size *= 2
    return batch_size


def above_chance(results: list[dict[str, Any]]) -> float:
    """Return the mean of (consistency - chance) / (1 - chance)."""
    return statistics.mean((r["consistency"] - r["chance"]) / (1 - r["chance"]) for r in results)


def best_setting(results: list[dict[str, Any]]) -> str:
    """Return the best NCL setting on validation nodes, over all graphs of the search.

    Features must be sparse, live and consistent on average; if those of no setting are, the recipe is used as it is.
    First come settings whose encoder is at least as accurate as CL's, then the accuracy of both layers decides.
    """
    graphs = {result["graph"] for result in results} & set(SEARCHED)
    of_cl = [r["encoder"] for r in results if r["name"] == CL and r["graph"] in graphs]
    scores = {}
    for name in SEARCH:
        own = [result for result in results if result["name"] == name]
        if len(own) < len(graphs):
            continue
        encoder, projector, sparsity = (statistics.mean(r[key] for r in own) for key in _COMPARED)
        live = statistics.mean(r["live"] / r["features"] for r in own)
        if sparsity >= LEAST_SPARSITY and live >= LEAST_LIVE and above_chance(own) >= LEAST_ABOVE_CHANCE:
            scores[name] = (bool(of_cl) and encoder >= statistics.mean(of_cl), encoder + projector)
    return max(scores, key=lambda name: scores[name], default="ncl")


def best_views(results: list[dict[str, Any]], graph: str) -> dict[str, Any]:
    """Return the changes of the views with which CL's encoder is best on validation nodes of a graph."""
    found = {result["name"]: result["encoder"] for result in results if result["graph"] == graph}
    return LIGHT if found.get(CL_LIGHT, 0) > found.get(CL, 0) else {}
