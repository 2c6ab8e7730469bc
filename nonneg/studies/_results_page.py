"""The page of a reproduction: what was measured beside what the paper says, in Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from nonneg.durable import write_atomically
from nonneg.evaluate import Measured, Measurement, paired_difference
from nonneg.report import write_curves
from nonneg.studies._plan import ACTIVATIONS, Plan, command
from nonneg.studies._published import (
    PUBLISHED,
    PUBLISHED_SELECTION,
    PUBLISHED_SHIFTED,
    PUBLISHED_SUPERVISED,
    Published,
)

Results = Mapping[str, Any]
SIDES = ("CL", "NCL")
MADE_BY = "Made by `nonneg reproduce`."
_HEADLINES = (
    ("probe", "encoder"),
    ("probe", "projector"),
    ("augmented_probe", "encoder"),
    ("fine_tuning", "encoder"),
    ("class_consistency", "projector"),
    ("class_consistency_supported", "projector"),
    ("class_consistency_floor", "projector"),
    ("sparsity", "projector"),
    ("live", "projector"),
    ("correlation", "projector"),
    ("effective_rank", "projector"),
    ("precision_at_10", "projector"),
    ("map_at_10", "projector"),
    ("neighbours", "encoder"),
    ("sepin_at_1", "projector"),
    ("sepin_at_10", "projector"),
    ("probe_0.01_of_labels", "encoder"),
    ("probe_0.8_random", "encoder"),
    ("corruptions", "encoder"),
)
_NEEDED = {"probe": "encoder", "class_consistency_supported": "projector", "sparsity": "projector"}
_NEEDED |= {"live": "projector", "precision_at_10": "projector"}
_ALL = "all features"
_SETTLED = {
    "digits": "The recipe's views and width, though, were settled by hand while looking at such figures of CL and NCL,"
    " seeds 0 and 1. "
}


def write_page(path: Path, plan: Plan, results: Results, commits: Sequence[str] = (), notes: str = "") -> Path:
    """Write what is done so far; steps that are missing are named at the end.

    Args:
        path: of the Markdown file; curves go to a folder of its name beside it.
        plan: what was to be done.
        results: figures by the names of the steps, None where a step is not done.
        commits: of the code that made them, beside those that the figures name.
        notes: Markdown for the top of the page.
    """
    folder = path.with_suffix("")
    sections = [
        _head(plan),
        notes.strip(),
        _side_by_side(plan, results),
        _matching(results),
        _selection(plan.recipe, results, folder),
        _supervised(plan, results, folder),
        _activations(plan, results),
        _pictures(results, path),
        _how(plan, results, commits),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "\n\n".join(section for section in sections if section).encode() + b"\n")
    return path


def _head(plan: Plan) -> str:
    return (
        f"# {plan.recipe}: CL and NCL, side by side\n\n"
        "Contrastive learning without (CL) and with (NCL) a non-negative map at the projector's end; all else is the"
        " same. Figures are of the test split; no seed, no epoch and no probe's regularisation was chosen by them."
        f" {_SETTLED.get(plan.recipe, '')}{MADE_BY}"
    )


def _side_by_side(plan: Plan, results: Results) -> str:
    steps = ([f"{side}, seed {seed}" for side in SIDES] for seed in range(plan.seeds))
    done = [names for names in steps if all(results.get(name) is not None for name in names)]  # of both sides
    if not done:
        return ""
    columns = {side: tuple(Measured.from_dict(results[names[i]]) for names in done) for i, side in enumerate(SIDES)}
    found = Measurement(columns, {})
    paper: Mapping[Any, Published] = PUBLISHED.get(plan.recipe, {})
    told = dict(found.cells())
    shifted = {row: said for row in told if (said := _published_shift(plan.recipe, row)) is not None}
    chosen = [*_HEADLINES, *shifted]
    main = [[*told[row], _published(paper.get(row) or shifted.get(row))] for row in chosen if row in told]
    others = [cells for row, cells in told.items() if row not in chosen]
    headings = [*found.headings(), "the paper, CL → NCL"]
    if not paper:
        headings, main = headings[:-1], [cells[:-1] for cells in main]
    spread = "± is the standard deviation over seeds; differences are paired over seeds, with 95% interval and p of a"
    several = len(columns["CL"]) > 1
    weak = "Few seeds make a weak test, and p is not corrected for the number of rows."
    note = f"{spread} t-test. {weak}" if several else "One seed: brackets are 95% intervals over test samples."
    lines = ["## Side by side", _table(headings, main), note]
    if others:
        lines += ["<details><summary>All other figures</summary>", _table(found.headings(), others), "</details>"]
    return "\n\n".join(lines)


def _published_shift(recipe: str, row: Any) -> Published | None:
    key, layer = row
    known = PUBLISHED_SHIFTED.get(recipe, {}) if key.startswith("shifted_") and layer == "encoder" else {}
    return next((said for part, said in known.items() if part in key.lower()), None)


def _published(said: Published | None) -> str:
    return f"{said.cl} → {said.ncl} ({said.protocol})" if said else ""


def _matching(results: Results) -> str:
    found = results.get("matching")
    if not found:
        return ""
    rows = [
        [
            side,
            f"{told['agreement']:.3f}" + (f" ± {told['standard_error']:.3f}" if told.get("standard_error") else ""),
            f"{told['floor']:.3f}",
            *(f"{count} of {told['live'][0]}" for count in told["at_least"].values()),
        ]
        for side, told in found.items()
    ]
    levels = next(iter(found.values()))["at_least"]
    error = "; ± is the standard error over seeds" if any("±" in row[1] for row in rows) else ""
    return "\n\n".join(
        [
            "## The same features in every seed?",
            _table(["", "mean matched cosine", "by chance", *(f"stable at {level} or more" for level in levels)], rows),
            "Live features of independently trained networks, matched one to one over the test samples (Hungarian"
            f" method){error}. Stable is a feature of seed 0 by its mean cosine with its partners in the other seeds."
            " CL's features are free up to a rotation; up to sign they are given the benefit of it.",
        ]
    )


def _selection(recipe: str, results: Results, folder: Path) -> str:
    found = {side: told for side in SIDES if (told := results.get(f"selection, {side}")) is not None}
    if not found:
        return ""
    tables = [_selection_table(side, told["points"]) for side, told in found.items()]
    drawn = [
        write_curves(folder / f"selection-{figure}.svg", _panels(found, figure), "features kept", label, doubling=True)
        for figure, label in (("probe", "linear probe"), ("precision", "precision@10"))
    ]
    return "\n\n".join(
        [
            "## Fewer features",
            *(f"![Over the number of features]({folder.name}/{file.name})" for file in drawn),
            *tables,
            "Probe on the projector's features / precision@10 / bytes a sample. Seed 0. Selectors and probe are fitted"
            " on the train split.",
            *([PUBLISHED_SELECTION[recipe]] if recipe in PUBLISHED_SELECTION else []),
        ]
    )


def _panels(found: Mapping[str, Any], figure: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
    return {
        side: {
            by: [(p["keep"], p[figure]) for p in told["points"] if p["by"] in (by, _ALL)]
            for by in dict.fromkeys(p["by"] for p in told["points"])
            if by != _ALL
        }
        for side, told in found.items()
    }


def _selection_table(side: str, points: Sequence[Mapping[str, Any]]) -> str:
    counts = sorted({point["keep"] for point in points})
    *fewer, whole = counts
    cells = {
        (point["by"], point["keep"]): f"{point['probe']:.1%} / {point['precision']:.1%} / {point['bytes']:,.0f}"
        for point in points
    }
    selectors = dict.fromkeys(point["by"] for point in points if point["by"] != _ALL)
    rows = [[by, *(cells[by, count] for count in fewer), cells[_ALL, whole]] for by in selectors]
    return _table([side, *(f"{count} features" for count in fewer), f"all {whole}"], rows)


def _supervised(plan: Plan, results: Results, folder: Path) -> str:
    found: dict[str, dict[str, list[Any]]] = {}
    for name, told in results.items():
        if name.startswith("supervised, ") and told is not None:
            _, start, head, _ = name.split(", ")
            found.setdefault(start, {}).setdefault(head, []).append(told)
    if not found:
        return ""
    heads = list(dict.fromkeys(head for by_head in found.values() for head in by_head))
    accuracy = {start: {h: [t["accuracy"] for t in told] for h, told in by.items()} for start, by in found.items()}
    rows = [[head, *(_spread(accuracy[start].get(head, [])) for start in found)] for head in heads]
    rows += [
        [f"N{head} - {head}", *(_paired(accuracy[start].get(head), accuracy[start].get(f"N{head}")) for start in found)]
        for head in heads
        if f"N{head}" in heads
    ]
    headings = ["accuracy, last epoch", *found]
    if plan.recipe in PUBLISHED_SUPERVISED:
        headings.append("the paper, scratch / fine-tuned")
        rows = [[*row, PUBLISHED_SUPERVISED[plan.recipe].get(row[0], "")] for row in rows]
    panels = {
        start: {
            head: [(i + 1, fmean(values)) for i, values in enumerate(zip(*(t["curve"] for t in told), strict=True))]
            for head, told in by_head.items()
        }
        for start, by_head in found.items()
    }
    drawn = write_curves(folder / "supervised.svg", panels, "epoch", "accuracy, test split")
    return "\n\n".join(
        [
            "## With labels: cross entropy (CE) and non-negative cross entropy (NCE)",
            _table(headings, rows),
            f"![Accuracy over the epochs]({folder.name}/{drawn.name})",
            f"From scratch {plan.supervised_epochs} epochs; fine-tuned {plan.fine_tune_epochs} epochs, CE from CL's"
            " encoder and NCE from NCL's. Without a projector the encoder's features are non-negative as they are, so"
            " NCE rectifies the classifier's weight; with one (MLP), the projector's output.",
        ]
    )


def _activations(plan: Plan, results: Results) -> str:
    rows, failed = [], []
    for activation in ACTIVATIONS:
        if (told := results.get(f"activation, {activation}")) is not None:
            figures = Measured.from_dict(told).figures if "figures" in told else {}
            kept = [figures.get((key, layer)) for key, layer in _NEEDED.items()]
            rows.append([activation, *("—" if figure is None else figure.form.format(figure.value) for figure in kept)])
            if "failed" in told:
                again = f" Its row is of lr {told['lr']:g}." if figures else ""
                failed.append(f"{activation}: {told['failed']}.{again}")
    if not rows:
        return ""
    headings = ["", "linear probe, encoder", "class consistency, 10 or more active", "sparsity", "live", "precision@10"]
    return "\n\n".join(
        [
            "## The map at the projector's end",
            _table(headings, rows),
            f"{plan.ablation_epochs} epochs, seed 0. gelu and leaky relu are controls: they are not non-negative.",
            *failed,
        ]
    )


def _pictures(results: Results, page: Path) -> str:
    shown = [
        f"{caption}:\n\n![{caption}]({page.stem}/{file})" for caption, file in (results.get("pictures") or {}).items()
    ]
    return "\n\n".join(["## Pictures", *shown]) if shown else ""


def _how(plan: Plan, results: Results, commits: Sequence[str]) -> str:
    made = [told for told in results.values() if isinstance(told, dict) and "environment" in told]
    lacking = [name for name, told in results.items() if told is None]
    lines = [
        f"**Command**: `{command(plan)}`.",
        f"**Plan**: {plan.seeds} seeds of {made[0]['epochs'] if made else plan.epochs} epochs; linear layer on views"
        f" {plan.probe_epochs}, fine-tuning {plan.fine_tune_epochs}, with labels {plan.supervised_epochs} epochs of"
        f" {plan.supervised_seeds} seeds, activations {plan.ablation_epochs}.",
        "**Layers**: encoder and projector, as the rows say; batch norm in evaluation mode.",
        "**Probe**: logistic regression on cached features; regularisation chosen on a fifth of the train split.",
        "**Chance**: class consistency under permuted labels; features with 10 or more active samples.",
        "**Corruptions**: 15 kinds at 5 severities, the probe fitted on clean images.",
        "**SEPIN**: two views of at most 2,048 test images drawn at random, temperature 0.2, renormalised, ranked by"
        " information.",
        "**Random labels**: this share of the train labels replaced by ones drawn evenly from all classes, mean of 3"
        " draws.",
    ]
    if made:
        told = made[0]["environment"]
        packages = ", ".join(f"{name} {version}" for name, version in told["packages"].items())
        made_at = ", ".join(dict.fromkeys([*(str(one["environment"]["commit"]) for one in made), *commits]))
        lines.append(f"**Hardware**: {told['device']}, {told['cores']} cores. **Software**: {packages}.")
        seconds = [f"{pick(one['seconds'] for one in made):.0f}" for pick in (min, max)]
        lines.append(f"**Commit**: {made_at}. Training took {' to '.join(dict.fromkeys(seconds))} s a run.")
    if lacking:
        lines.append(f"**Not done yet**: {'; '.join(lacking)}.")
    return "\n\n".join(["## How", "\n".join(f"- {line}" for line in lines)])


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def lines() -> Iterator[Sequence[str]]:
        yield headings
        yield ["---", *["---:"] * (len(headings) - 1)]
        yield from rows

    return "\n".join("| " + " | ".join(line) + " |" for line in lines())


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "—"
    return f"{fmean(values):.1%}" + (f" ± {stdev(values):.1%}" if len(values) > 1 else "")


def _paired(first: Sequence[float] | None, second: Sequence[float] | None) -> str:
    """`second - first` in points, over the seeds."""
    if not first or not second or len(first) != len(second):
        return "—"
    found = paired_difference(first, second, "seeds")
    spread = f" [{100 * found.low:+.1f}, {100 * found.high:+.1f}]" if found.low == found.low else ""
    return f"{100 * found.mean:+.1f}{spread}"
