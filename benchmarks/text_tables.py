"""The rule that chooses settings for `benchmarks.text`, and its tables."""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.text_data import SETS, TASKS
from nonneg.evaluate import markdown_table

_LEAST_EXCESS, _LEAST_LIVE, _LEAST_SPARSITY = 0.25, 0.95, 0.9
_FIGURES = {"probe": "probe", "precision": "precision@10", "clusters": "k-means accuracy"}
_LAYERS = {"ncl": ("encoder", "projector"), "cl": ("encoder", "projector"), "dense": ("encoder",)}
_COLUMNS = ("probe", "precision", "clusters", "information", "excess", "active", "live", "sparsity")
_OF_RECTIFIER = {"share", "first_share", "dense_weight", "first_dense_weight", "dense_temperature"}


def without_rectifier(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of NCL that also change CL."""
    return {key: value for key, value in settings.items() if key not in _OF_RECTIFIER}


def results(out: Path, part: str) -> list[dict[str, Any]]:
    """Return the finished runs of a part."""
    found = [json.loads(path.read_text()) for path in sorted(out.glob("*.json")) if path.name != "chosen.json"]
    return [run for run in found if run.get("part") == part]


def chosen(out: Path, part: str = "search") -> dict[str, dict[str, Any]]:
    """Choose each method's settings: the best mean of its validation figures over layers and the searched sets.

    For captions, that is the rank correlation on STS-B's dev pairs with the first seed.

    Settings of NCL that miss the targets of readability (excess consistency and live features) are considered only if
    all do. Consistency is never maximised.
    """
    runs = results(out, part)
    if part == "captions":
        runs = [run for run in runs if run["seed"] == min(each["seed"] for each in runs)]
    best: dict[str, dict[str, Any]] = {}
    for method in sorted({run["method"] for run in runs}):
        by_number: dict[int, list[dict[str, Any]]] = {}
        for run in runs:
            if run["method"] == method:
                by_number.setdefault(run["number"], []).append(run)
        most = max(map(len, by_number.values()))
        scored = {n: (_is_readable(own), _score(own)) for n, own in by_number.items() if len(own) == most}
        number = max(scored, key=scored.__getitem__)
        scores = {n: round(100 * score, 2) for n, (_, score) in sorted(scored.items())}
        best[method] = {"number": number, "settings": by_number[number][0]["settings"], "scores": scores}
    return best


def _score(runs: list[dict[str, Any]]) -> float:
    return statistics.mean(
        run[f"{name}_{layer}"]
        for run in runs
        for name in (("STSB-dev",) if run["part"] == "captions" else _FIGURES)
        for layer in _LAYERS.get(run["method"], ("projector",))
    )


def _is_readable(runs: list[dict[str, Any]]) -> bool:
    if runs[0]["method"] != "ncl" or runs[0]["part"] == "captions":
        return True
    excess, live = (statistics.mean(run[f"{name}_projector"] for run in runs) for name in ("excess", "live"))
    return excess >= _LEAST_EXCESS and live >= _LEAST_LIVE


def tables(out: Path) -> str:
    """Return all tables as Markdown."""
    parts = (_means, _differences, _per_set, _caption_table, _speed_table)
    found = [_search_table(out, "search"), *(part(out) for part in parts), _recipe_table(out)]
    return "\n\n".join(text for text in found if text)


def _table(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    return markdown_table(head, (map(str, row) for row in rows))


def _search_table(out: Path, part: str) -> str:
    runs = results(out, part)
    picked = chosen(out, part)
    rows = [
        [
            f"**{run['method']} {run['number']}**"
            if picked[run["method"]]["number"] == run["number"]
            else f"{run['method']} {run['number']}",
            run.get("set", part),
            ", ".join(f"{key} {value:.4g}" for key, value in run["settings"].items()),
            *(_of(run, name, layer) for layer in ("encoder", "projector") for name in _FIGURES),
            _of(run, "excess", "projector"),
        ]
        for run in sorted(runs, key=lambda run: (run["method"], run["number"], run["name"]))
    ]
    names = [f"{name}, {layer}" for layer in ("encoder", "projector") for name in _FIGURES.values()]
    return _table(["", "set", "settings", *names, "excess"], rows) if rows else ""


def _recipe_table(out: Path) -> str:
    """Return the settings tried for the recipe `text`, the best mean of CL's and NCL's figures first.

    Settings with which NCL has less than 90% zeros are last.
    """
    every = results(out, "intents")
    scored = []
    for run in every:
        wanted = without_rectifier(run["settings"])
        plain = [each for each in every if each["method"] == "cl" and each["settings"] == wanted]
        if run["method"] == "ncl" and plain:
            is_sparse = run["sparsity_projector"] >= _LEAST_SPARSITY
            scored.append((is_sparse, _score([plain[0], run]), run["number"], {"cl": plain[0], "ncl": run}))
    rows = []
    for _, score, _, runs in sorted(scored, key=lambda found: found[:3], reverse=True):
        settings = ", ".join(f"{key} {value:.4g}" for key, value in runs["ncl"]["settings"].items()) or "the recipe"
        for method, run in sorted(runs.items()):
            figures = (_of(run, name, layer) for layer in ("encoder", "projector") for name in _FIGURES)
            readable = (_of(run, name, "projector") for name in ("excess", "sparsity"))
            rows.append([settings, method.upper(), f"{100 * score:.2f}", *figures, *readable])
    names = [f"{name}, {layer}" for layer in ("encoder", "projector") for name in _FIGURES.values()]
    return _table(["recipe `text`", "", "score", *names, "excess", "sparsity"], rows) if rows else ""


def _of(run: dict[str, Any], name: str, layer: str) -> str:
    value = run.get(f"{name}_{layer}")
    return "–" if value is None else f"{value:.1f}" if name == "active" else f"{100 * value:.1f}"


def _lines() -> list[tuple[str, str, str]]:
    """Return the title, the method and the layer of each line of the comparison."""
    return [
        ("MiniLM as it is, encoder", "raw", "encoder"),
        ("CL, encoder", "cl", "encoder"),
        ("NCL, encoder", "ncl", "encoder"),
        ("MultipleNegativesRankingLoss, encoder", "dense", "encoder"),
        ("CL, projector", "cl", "projector"),
        ("NCL, projector", "ncl", "projector"),
        ("CL, projector, top-k", "cl", "topk"),
        ("TopK autoencoder on CL's projector", "cl", "auto"),
        ("TopK autoencoder on CL's encoder", "cl", "autoencoder"),
        ("SparseEncoder with CSRLoss", "sparse", "projector"),
    ]


def _mean(runs: list[dict[str, Any]], key: str) -> float | None:
    """Return the mean over sets of the mean over seeds."""
    by_set: dict[str, list[float]] = {}
    for run in runs:
        if key in run:
            by_set.setdefault(run["set"], []).append(run[key])
    return statistics.mean(map(statistics.mean, by_set.values())) if by_set else None


def _means(out: Path) -> str:
    """Return means over the sets that every method has finished: others would compare different sets."""
    every, rows = results(out, "sets"), []
    done = [{run["set"] for run in every if run["method"] == method} for method in {run["method"] for run in every}]
    shared = set.intersection(*done) if done else set()
    runs = [run for run in every if run["set"] in shared]
    for title, method, layer in _lines():
        own = [run for run in runs if run["method"] == method]
        if own:
            values = {f"{name}_{layer}": _mean(own, f"{name}_{layer}") for name in _COLUMNS}
            rows.append([title, len(own), *(_of(values, name, layer) for name in _COLUMNS)])
    return _table([f"mean over {', '.join(sorted(shared))}", "runs", *_COLUMNS], rows) if rows else ""


def _differences(out: Path) -> str:
    """Return NCL − another for each set, with the standard error over seeds."""
    runs, rows = results(out, "sets"), []
    compared = [("CL", "cl", layer, layer, name) for layer in ("encoder", "projector") for name in _FIGURES] + [
        ("MiniLM as it is", "raw", "encoder", "encoder", "probe"),
        ("MiniLM as it is", "raw", "encoder", "encoder", "clusters"),
        ("MiniLM as it is", "raw", "projector", "encoder", "clusters"),
        ("MultipleNegativesRankingLoss", "dense", "projector", "encoder", "precision"),
        *(("SparseEncoder", "sparse", "projector", "projector", name) for name in ("probe", "precision", "excess")),
        ("CL, top-k", "cl", "projector", "topk", "excess"),
        ("autoencoder on CL's projector", "cl", "projector", "auto", "excess"),
        ("autoencoder on CL's encoder", "cl", "projector", "autoencoder", "excess"),
    ]
    for title, method, layer, other, name in compared:
        by_set = [_paired(runs, each, method, f"{name}_{layer}", f"{name}_{other}") for each in SETS]
        means = [statistics.mean(found) for found in by_set if found]
        if means:
            cells = [_with_error(found) for found in by_set]
            rows.append([f"{title}: {name}, {layer} − {other}", *cells, f"{statistics.mean(means):+.2f}"])
    return _table(["NCL −", *SETS, "mean"], rows) if rows else ""


def _paired(runs: list[dict[str, Any]], name: str, method: str, own: str, other: str) -> list[float]:
    here = [run for run in runs if run["set"] == name]
    first = {run["seed"]: run[own] for run in here if run["method"] == "ncl" and own in run}
    second = {run["seed"]: run[other] for run in here if run["method"] == method and other in run}
    if method == "raw" and second:  # it has no seed
        second = dict.fromkeys(first, next(iter(second.values())))
    return [100 * (first[seed] - second[seed]) for seed in sorted(first.keys() & second.keys())]


def _with_error(values: list[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:+.1f}" if values else "–"
    return f"{statistics.mean(values):+.1f} ± {statistics.stdev(values) / len(values) ** 0.5:.1f}"


def _per_set(out: Path) -> str:
    runs, rows = results(out, "sets"), []
    for name in SETS:
        for title, method, layer in _lines():
            own = [run for run in runs if run["method"] == method and run["set"] == name]
            if own:
                values = {f"{key}_{layer}": _mean(own, f"{key}_{layer}") for key in _COLUMNS}
                rows.append([name, title, len(own), *(_of(values, key, layer) for key in _COLUMNS)])
    return _table(["set", "", "seeds", *_COLUMNS], rows) if rows else ""


def _caption_table(out: Path) -> str:
    runs = results(out, "captions")
    keys: list[tuple[str, int]] = sorted({(run["method"], run["number"]) for run in runs})
    columns = ("STSB-dev", *TASKS, "sts")
    rows = []
    for method, number in keys:
        own = [run for run in runs if (run["method"], run["number"]) == (method, number)]
        settings = ", ".join(f"{key} {value:.4g}" for key, value in own[0]["settings"].items())
        for layer in ("encoder", "projector"):
            cells = [f"{100 * statistics.mean(run[f'{task}_{layer}'] for run in own):.2f}" for task in columns]
            errors = [100 * run[f"sts_{layer}"] for run in own]
            spread = f" ± {statistics.stdev(errors) / len(errors) ** 0.5:.2f}" if len(errors) > 1 else ""
            rows.append([f"{method} {number}", settings, layer, len(own), *cells[:-1], cells[-1] + spread])
    return _table(["captions", "settings", "layer", "seeds", *columns[:-1], "mean"], rows) if rows else ""


def _speed_table(out: Path) -> str:
    form: Callable[[Any], str] = lambda value: f"{value:,.1f}" if isinstance(value, float) else str(value)  # noqa: E731
    runs = results(out, "speed")
    columns = ("batch", "path", "sentences_per_second", "peak_gb")
    rows = [[run["name"], *(form(run.get(name, "–")) for name in columns)] for run in runs]
    return _table(["speed", *columns], rows) if rows else ""
