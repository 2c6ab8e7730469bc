"""The Markdown page of a reproduction: measured figures next to those of the paper."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from nonneg.durable import write_atomically
from nonneg.evaluate import Measured, Measurement, markdown_table, paired_difference
from nonneg.report import write_curves
from nonneg.studies._plan import ACTIVATIONS, Plan, command
from nonneg.studies._published import (
    PUBLISHED,
    PUBLISHED_SELECTION,
    PUBLISHED_SHIFTED,
    PUBLISHED_SUPERVISED,
    Published,
)
from nonneg.studies._steps import Step

Results = Mapping[Step, Any]
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
_ABLATION = {"probe": "encoder", "class_consistency_supported": "projector", "sparsity": "projector"}
_ABLATION |= {"live": "projector", "precision_at_10": "projector"}
_ALL = "all features"
_CAVEATS = {
    "digits": "However, the recipe's views and width were chosen by hand while looking at such figures of CL and NCL,"
    " seeds 0 and 1. "
}


def write_page(path: Path, plan: Plan, results: Results, commits: Sequence[str] = (), notes: str = "") -> Path:
    """Write the page from all finished steps; missing steps are listed at the end.

    Args:
        path: the Markdown file; curves go to a folder of the same name next to it.
        plan: the plan of the reproduction.
        results: the figures of each step, None for steps that are not finished.
        commits: commits of the code that produced them, in addition to those in the figures.
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
        _method(plan, results, commits),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "\n\n".join(section for section in sections if section).encode() + b"\n")
    return path


def _head(plan: Plan) -> str:
    return (
        f"# {plan.recipe}: CL and NCL, side by side\n\n"
        "Contrastive learning without (CL) and with (NCL) a non-negative map at the end of the projector; everything"
        " else is the same. All figures are measured on the test split, which was not used to choose a seed, an epoch"
        " or the regularisation of a probe."
        f" {_CAVEATS.get(plan.recipe, '')}{MADE_BY}"
    )


def _side_by_side(plan: Plan, results: Results) -> str:
    steps = ([Step("run", side, seed=seed) for side in SIDES] for seed in range(plan.seeds))
    done = [pair for pair in steps if all(results.get(step) is not None for step in pair)]
    if not done:
        return ""
    columns = {side: tuple(Measured.from_dict(results[pair[i]]) for pair in done) for i, side in enumerate(SIDES)}
    found = Measurement(columns, {})
    paper: Mapping[Any, Published] = PUBLISHED.get(plan.recipe, {})
    cells = dict(found.cells())
    shifted = {row: there for row in cells if (there := _published_shift(plan.recipe, row)) is not None}
    chosen = [*_HEADLINES, *shifted]
    main = [[*cells[row], _published(paper.get(row) or shifted.get(row))] for row in chosen if row in cells]
    others = [line for row, line in cells.items() if row not in chosen]
    headings = [*found.headings(), "the paper, CL → NCL"]
    if not paper:
        headings, main = headings[:-1], [line[:-1] for line in main]
    note = "One seed: brackets are 95% confidence intervals over test samples."
    if len(columns["CL"]) > 1:
        note = (
            "± is the standard deviation over seeds; differences are paired over seeds, with the 95% confidence"
            " interval and p of a t-test. With few seeds the test is weak, and p is not corrected for the number of"
            " rows."
        )
    lines = ["## Side by side", markdown_table(headings, main), note]
    if others:
        lines += [
            "<details><summary>All other figures</summary>",
            markdown_table(found.headings(), others),
            "</details>",
        ]
    return "\n\n".join(lines)


def _published_shift(recipe: str, row: Any) -> Published | None:
    key, layer = row
    known = PUBLISHED_SHIFTED.get(recipe, {}) if key.startswith("shifted_") and layer == "encoder" else {}
    return next((published for part, published in known.items() if part in key.lower()), None)


def _published(figure: Published | None) -> str:
    return f"{figure.cl} → {figure.ncl} ({figure.protocol})" if figure else ""


def _matching(results: Results) -> str:
    found = results.get(Step("matching"))
    if not found:
        return ""
    rows = [
        [
            side,
            f"{match['agreement']:.3f}" + (f" ± {match['standard_error']:.3f}" if match.get("standard_error") else ""),
            f"{match['floor']:.3f}",
            *(f"{count} of {match['live'][0]}" for count in match["at_least"].values()),
        ]
        for side, match in found.items()
    ]
    levels = next(iter(found.values()))["at_least"]
    error = "; ± is the standard error over seeds" if any("±" in row[1] for row in rows) else ""
    return "\n\n".join(
        [
            "## Features across seeds",
            markdown_table(
                ["", "mean matched cosine", "by chance", *(f"stable at {level} or more" for level in levels)], rows
            ),
            "Live features of independently trained networks, matched one to one over the test samples (Hungarian"
            f" method){error}. A feature of seed 0 is stable at this mean cosine with its partners in the other seeds."
            " The features of CL are determined only up to a rotation; one row ignores their signs.",
        ]
    )


def _selection(recipe: str, results: Results, folder: Path) -> str:
    found = {side: sweep for side in SIDES if (sweep := results.get(Step("selection", side))) is not None}
    if not found:
        return ""
    tables = [_selection_table(side, sweep["points"]) for side, sweep in found.items()]
    drawn = [
        write_curves(folder / f"selection-{figure}.svg", _panels(found, figure), "features kept", label, doubling=True)
        for figure, label in (("probe", "linear probe"), ("precision", "precision@10"))
    ]
    return "\n\n".join(
        [
            "## Fewer features",
            *(f"![By number of features]({folder.name}/{file.name})" for file in drawn),
            *tables,
            "Linear probe on the projector's features / precision@10 / bytes per sample. Seed 0. Selectors and probe"
            " are fitted on the train split.",
            *([PUBLISHED_SELECTION[recipe]] if recipe in PUBLISHED_SELECTION else []),
        ]
    )


def _panels(found: Mapping[str, Any], figure: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
    return {
        side: {
            by: [(p["keep"], p[figure]) for p in sweep["points"] if p["by"] in (by, _ALL)]
            for by in dict.fromkeys(p["by"] for p in sweep["points"])
            if by != _ALL
        }
        for side, sweep in found.items()
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
    return markdown_table([side, *(f"{count} features" for count in fewer), f"all {whole}"], rows)


def _supervised(plan: Plan, results: Results, folder: Path) -> str:
    found: dict[str, dict[str, list[Any]]] = {}
    for step, figures in results.items():
        if step.part == "supervised" and figures is not None:
            found.setdefault(step.start, {}).setdefault(step.head, []).append(figures)
    if not found:
        return ""
    heads = list(dict.fromkeys(head for by_head in found.values() for head in by_head))
    accuracy = {
        start: {head: [run["accuracy"] for run in runs] for head, runs in by_head.items()}
        for start, by_head in found.items()
    }
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
            head: [(i + 1, fmean(values)) for i, values in enumerate(zip(*(run["curve"] for run in runs), strict=True))]
            for head, runs in by_head.items()
        }
        for start, by_head in found.items()
    }
    drawn = write_curves(folder / "supervised.svg", panels, "epoch", "accuracy, test split")
    return "\n\n".join(
        [
            "## Supervised: cross entropy (CE) and non-negative cross entropy (NCE)",
            markdown_table(headings, rows),
            f"![Accuracy over the epochs]({folder.name}/{drawn.name})",
            f"{plan.supervised_epochs} epochs from scratch; {plan.fine_tune_epochs} epochs of fine-tuning, CE from the"
            " encoder of CL and NCE from that of NCL. Without a projector the encoder's features are non-negative"
            " already, so NCE rectifies the classifier's weight; with one (MLP), the projector's output.",
        ]
    )


def _activations(plan: Plan, results: Results) -> str:
    rows, failed = [], []
    for activation in ACTIVATIONS:
        if (result := results.get(Step("activation", activation=activation))) is not None:
            figures = Measured.from_dict(result).figures if "figures" in result else {}
            kept = [figures.get((key, layer)) for key, layer in _ABLATION.items()]
            rows.append([activation, *("—" if figure is None else figure.form.format(figure.value) for figure in kept)])
            if "failed" in result:
                retry = f" Its row shows lr {result['lr']:g}." if figures else ""
                failed.append(f"{activation}: {result['failed']}.{retry}")
    if not rows:
        return ""
    headings = ["", "linear probe, encoder", "class consistency, 10 or more active", "sparsity", "live", "precision@10"]
    return "\n\n".join(
        [
            "## Activation at the end of the projector",
            markdown_table(headings, rows),
            f"{plan.ablation_epochs} epochs, seed 0. gelu and leaky relu are controls: their outputs can be negative.",
            *failed,
        ]
    )


def _pictures(results: Results, page: Path) -> str:
    pictures = results.get(Step("pictures")) or {}
    shown = [f"{caption}:\n\n![{caption}]({page.stem}/{file})" for caption, file in pictures.items()]
    return "\n\n".join(["## Pictures", *shown]) if shown else ""


def _method(plan: Plan, results: Results, commits: Sequence[str]) -> str:
    runs = [figures for figures in results.values() if isinstance(figures, dict) and "environment" in figures]
    missing = [str(step) for step, figures in results.items() if figures is None]
    lines = [
        f"**Command**: `{command(plan)}`.",
        f"**Plan**: {plan.seeds} seeds of {plan.epochs} epochs; linear layer on views {plan.probe_epochs} epochs,"
        f" fine-tuning {plan.fine_tune_epochs}, supervised {plan.supervised_epochs} ({plan.supervised_seeds} seeds),"
        f" activations {plan.ablation_epochs}.",
        "**Layers**: encoder and projector, as the rows state; batch norm in evaluation mode.",
        "**Probe**: logistic regression on cached features; regularisation chosen on a fifth of the train split.",
        "**Chance**: class consistency under permuted labels; features with 10 or more active samples.",
        "**Corruptions**: 15 kinds at 5 severities; the probe is fitted on clean images.",
        "**SEPIN**: two views of at most 2,048 randomly drawn test images, temperature 0.2, renormalised, ranked by"
        " information.",
        "**Random labels**: this share of the train labels is replaced by labels drawn uniformly from all classes; mean"
        " of 3 draws.",
    ]
    if runs:
        made = runs[0]["environment"]
        packages = ", ".join(f"{name} {version}" for name, version in made["packages"].items())
        all_commits = ", ".join(dict.fromkeys([*(str(run["environment"]["commit"]) for run in runs), *commits]))
        lines.append(f"**Hardware**: {made['device']}, {made['cores']} cores. **Software**: {packages}.")
        seconds = [f"{pick(run['seconds'] for run in runs):.0f}" for pick in (min, max)]
        lines.append(f"**Commit**: {all_commits}. Training took {' to '.join(dict.fromkeys(seconds))} s per run.")
    if missing:
        lines.append(f"**Not done yet**: {'; '.join(missing)}.")
    return "\n\n".join(["## Method", "\n".join(f"- {line}" for line in lines)])


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "—"
    return f"{fmean(values):.1%}" + (f" ± {stdev(values):.1%}" if len(values) > 1 else "")


def _paired(first: Sequence[float] | None, second: Sequence[float] | None) -> str:
    """Return `second - first` in percentage points, paired over seeds."""
    if not first or not second or len(first) != len(second):
        return "—"
    found = paired_difference(first, second, "seeds")
    spread = f" [{100 * found.low:+.1f}, {100 * found.high:+.1f}]" if found.low == found.low else ""
    return f"{100 * found.mean:+.1f}{spread}"
