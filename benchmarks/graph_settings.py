"""Settings that `benchmarks.graphs --search` compares, by name: changes of the recipe `graph`."""

from typing import Any

# PubMed, DBLP and Physics take no part in any choice.
SEARCHED = ("cs", "computers", "photo", "citeseer", "cora")


def _cl(**changes: Any) -> dict[str, Any]:
    return {"rectify": "none", "share": 0.0, "first_share": 0.0, "dense_weight": 0.0, **changes}


def _views(edges: float, attributes: float) -> dict[str, Any]:
    return {"views.drop_edges": [edges, edges], "views.mask_attributes": [attributes, attributes]}


_NORM = {"batch_norm": True}
SEARCH: dict[str, dict[str, Any]] = {
    "cl": _cl(),
    "cl-norm": _cl(**_NORM),
    "cl-512": _cl(width=512),
    "cl-norm-512": _cl(**_NORM, width=512),
    "cl-0.2-0.2": _cl(**_views(0.2, 0.2)),
    "cl-0.6-0.2": _cl(**_views(0.6, 0.2)),
    "cl-0.2-0.6": _cl(**_views(0.2, 0.6)),
    "cl-0.6-0.6": _cl(**_views(0.6, 0.6)),
    "cl-tau0.2": _cl(temperature=0.2),
    "cl-tau0.8": _cl(temperature=0.8),
    "cl-epochs100": _cl(epochs=100),
    "cl-batch2048-epochs100": _cl(batch_size=2048, epochs=100),
    "cl-graphsage": _cl(encoder="graphsage", **_NORM),
    "ncl": {},
    "ncl-share0.1": {"share": 0.1},
    "ncl-share0.03": {"share": 0.03},
    "ncl-512": {"features": 512},
    "ncl-norm": {**_NORM},
    "ncl-dense0.8": {"dense_weight": 0.8},
    "ncl-dense0.2": {"dense_weight": 0.2},
    "ncl-tau0.2": {"temperature": 0.2, "dense_temperature": 0.4},
    "ncl-tau0.8": {"temperature": 0.8, "dense_temperature": 0.4},
    "ncl-512-share0.1": {"features": 512, "share": 0.1},
    "cl-norm-512-0.6-0.2": _cl(**_NORM, width=512, **_views(0.6, 0.2)),
    "cl-norm-512-0.2-0.6": _cl(**_NORM, width=512, **_views(0.2, 0.6)),
    "cl-norm-512-0.2-0.2": _cl(**_NORM, width=512, **_views(0.2, 0.2)),
    "cl-norm-512-tau0.2": _cl(**_NORM, width=512, temperature=0.2),
    "cl-norm-512-epochs100": _cl(**_NORM, width=512, epochs=100),
    "cl-lr0.003": _cl(lr=0.003),
    "cl-lr0.0003": _cl(lr=0.0003),
    "cl-layers1": _cl(layers=1),
    "cl-degree": _cl(**{"views.weighting": "degree"}),
    "cl-features512": _cl(features=512, projector_width=512),
    "ncl-rep_relu": {"rectify": "rep_relu"},
    "ncl-norm-512": {**_NORM, "width": 512},
    "ncl-norm-512-features512": {**_NORM, "width": 512, "features": 512},
    "ncl-tau0.8-dense0.8": {"temperature": 0.8, "dense_temperature": 0.4, "dense_weight": 0.8},
}
