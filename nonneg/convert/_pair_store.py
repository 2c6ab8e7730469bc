"""A pair of heads on disk and on the hub, in the format of an embedding, without pickle."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from nonneg.convert import _store
from nonneg.convert._head import Head
from nonneg.convert._report import FitReport

if TYPE_CHECKING:
    from nonneg.convert._pair import NonNegativePair

_PAIR = _store.Saved("NonNegativePair", "pair")
_SIDES = ("a", "b")


def save(pair: "NonNegativePair", folder: Path, measured: dict[str, float] | None = None) -> Path:
    """Write the fitted pair."""
    heads: dict[str, Head] = {side: getattr(pair, f"head_{side}_") for side in _SIDES}
    reports: dict[str, FitReport] = {side: getattr(pair, f"report_{side}_") for side in _SIDES}
    widths = {side: head.weight.shape[1] for side, head in heads.items()}
    features = heads["a"].weight.shape[0]
    described = {
        "widths": widths,
        "features": features,
        "max_active": _store.plain(heads["a"].max_active),
        "parameters": {name: _store.plain(value) for name, value in pair.get_params(deep=False).items()},
        "n_iter": pair.n_iter_,
        "reports": {side: dataclasses.asdict(report) for side, report in reports.items()},
        "feature_names_in": {side: list(getattr(pair, f"feature_names_in_{side}_", [])) for side in _SIDES},
        "measured": measured or {},
    }
    card = _PAIR.card(
        "feature-extraction",
        f"Non-negative codes for pairs of vectors with {widths['a']} and {widths['b']} numbers",
        f"Turns vectors of {widths['a']} numbers and their partners of {widths['b']} numbers into the same"
        f" {features} non-negative features, {_store.at_most(heads['a'])}.",
        "a, b = pair.transform_a(first), pair.transform_b(second)  # SciPy CSR, comparable: a @ b.T",
    )
    card += _store.figures({f" of {side.upper()}": report for side, report in reports.items()}, measured or {})
    tensors = {f"{side}.{name}": tensor for side in _SIDES for name, tensor in heads[side].state_dict().items()}
    return _PAIR.write(folder, described, tensors, card)


def load(path: str | Path) -> "NonNegativePair":
    """Load from the folder of a pair, or `hub:owner/name`."""
    from nonneg.convert._pair import NonNegativePair

    with _PAIR.opened(_PAIR.folder(path)) as (described, tensors):
        pair = NonNegativePair(**described["parameters"])
        widths, features = {side: int(described["widths"][side]) for side in _SIDES}, int(described["features"])
        weights = {f"{side}.weight": (features, width) for side, width in widths.items()}
        _store.check_tensors(tensors, {**weights, **{f"{side}.bias": (features,) for side in _SIDES}})
        pair.n_iter_ = int(described["n_iter"])
        for side in _SIDES:
            setattr(pair, f"head_{side}_", _store.restored_head(tensors, described, pair.get_params(), f"{side}."))
            setattr(pair, f"report_{side}_", FitReport(**described["reports"][side]))
            names = _store.column_names(described["feature_names_in"][side], widths[side])
            if names is not None:
                setattr(pair, f"feature_names_in_{side}_", names)
    return pair
