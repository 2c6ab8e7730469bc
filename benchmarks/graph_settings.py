"""Settings that `benchmarks.graphs --search` compares, by name: changes of the recipe `graph`."""

from typing import Any

# PubMed, DBLP and Physics take no part in any choice.
SEARCHED = ("cs", "computers", "photo", "citeseer", "cora")


def _cl(width: int, batch_norm: bool) -> dict[str, Any]:
    plain = {"rectify": "none", "share": 0.0, "first_share": 0.0, "dense_weight": 0.0}
    return {**plain, "width": width, "batch_norm": batch_norm}


SEARCH: dict[str, dict[str, Any]] = {
    "cl": _cl(256, False),
    "cl-norm": _cl(256, True),
    "cl-512": _cl(512, False),
    "cl-norm-512": _cl(512, True),
    "ncl": {},
    "ncl-share0.1": {"share": 0.1},
    "ncl-dense0.8": {"dense_weight": 0.8},
    "ncl-tau0.8": {"temperature": 0.8},
    "ncl-features512": {"features": 512},
    "ncl-tau0.2": {"temperature": 0.2},
    "ncl-dense0.2": {"dense_weight": 0.2},
}
