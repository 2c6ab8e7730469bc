"""Settings that `benchmarks.graphs --search` compares: changes of the recipe `graph` by name; and how one is chosen."""

import statistics
from typing import Any

GRAPHS = ("cora", "citeseer", "photo", "dblp", "computers", "pubmed", "cs", "physics")
# The others take no part in any choice.
SEARCHED = ("cs", "photo", "citeseer", "cora")
MOST_STEPS = 16  # per epoch
LEAST_SPARSITY, LEAST_LIVE, LEAST_ABOVE_CHANCE = 0.9, 0.95, 0.45

WIDE = {"features": 1024}
SEARCH: dict[str, dict[str, Any]] = {
    "cl": {},
    "ncl": {},
    "ncl-1024": WIDE,
    "ncl-1024-fading": {**WIDE, "first_dense_weight": 0.5, "dense_weight": 0.0},
    "ncl-1024-tau0.6": {**WIDE, "temperature": 0.6},
    "ncl-1024-dense0.8": {**WIDE, "dense_weight": 0.8},
    "ncl-1024-share0.08": {**WIDE, "share": 0.08},
    "ncl-1024-norm": {**WIDE, "projector_batch_norm": True},
    "cl-1024": WIDE,
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
    """Return the NCL setting with the highest accuracy on validation nodes, the mean of both layers.

    Only settings count whose features are sparse, live and consistent on average over the graphs. If there is none, the
    recipe is used as it is.
    """
    scores, graphs = {}, {result["graph"] for result in results}
    for name in SEARCH:
        own = [result for result in results if result["name"] == name]
        if name.startswith("cl") or len(own) < len(graphs):
            continue
        sparsity = statistics.mean(r["sparsity"] for r in own)
        live = statistics.mean(r["live"] / r["features"] for r in own)
        if sparsity >= LEAST_SPARSITY and live >= LEAST_LIVE and above_chance(own) >= LEAST_ABOVE_CHANCE:
            scores[name] = statistics.mean(r["encoder"] + r["projector"] for r in own)
    return max(scores, key=lambda name: scores[name], default="ncl")
