"""The demo: contrastive learning without and with non-negativity, side by side, all else equal."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from nonneg import metrics
from nonneg.durable import claim_folder, write_atomically
from nonneg.errors import InputError
from nonneg.evaluate import Probe, few_labels, linear_probe, rich_table
from nonneg.features import Features, Suggestion
from nonneg.labels import is_labelled
from nonneg.modalities import Source
from nonneg.models import Model, load, weights_digest
from nonneg.naming import save_suggestions
from nonneg.report import Search, Side, Table, picture_of, write_report
from nonneg.studies._pairs_demo import ROWS, found_by_words, measure_pairs
from nonneg.studies._word_counts import TF_IDF, tf_idf
from nonneg.training import TrainConfig, load_recipe, new_model, read_environment, read_log, train
from nonneg.trials import split_sources

RESULTS, REPORT = "results.json", "report.html"
_GRAPHS = {"citations": "graph", "cora": "graph"}
_RECIPES = {"digits": "digits", "shapes": "shapes", "intents": "text", "emoji": "emoji", **_GRAPHS}
_LABELS = {"intents": 0.1}  # share of the labels that probes are fitted on: with 77 classes, all would take minutes
_DESCRIPTIONS = {
    "CL": "Plain contrastive learning: features are determined only up to a rotation, so a single one means nothing.",
    "NCL": "The same network with a non-negative map at its end: each feature tends to stand for one thing.",
}
_NAMED = 128  # features of pairs, the strongest ones, whose names are among the results
_FOLLOWS = 0.8  # a feature follows a factor if this share of its active samples has the same value


@dataclass(frozen=True)
class Outcome:
    """Results of one side of the comparison."""

    name: str
    run: Path | None
    """Its run; None for a method that is not trained."""
    projector: Features
    figures: Mapping[str, float]
    meanings: Mapping[int, Mapping[str, str]]
    """Feature to the factors it follows and their values, or to its words; empty if neither is known."""
    chance_followers: Mapping[str, float]
    """Factor to the number of features that would follow it by chance."""
    found: Mapping[str, list[int]] = field(default_factory=dict)
    """Query to the rows of `projector` that it finds, for pairs of pictures and words."""


def demo(
    data: str = "digits",
    out: str | Path = "runs/demo",
    seed: int = 0,
    overwrite: bool = False,
    epochs: int | None = None,
) -> list[Outcome]:
    """Train CL and NCL with the same seed and budget, measure both, print a table and write a report.

    Args:
        data: digits, shapes, intents, emoji, citations or cora, or the path of a graph. If samples have words, the
            table also has word counts (TF-IDF).
        out: folder for both runs, both features, `results.json` and `report.html`.
        seed: seed of weights, order and views.
        overwrite: replace an earlier demo in that folder.
        epochs: number of epochs; by default the recipe's.
    """
    config = _config(data).replace(seed=seed)
    if epochs is not None:
        config = with_epochs(config, epochs)
    configs = both_sides(config)
    about = {"made_by": "nonneg demo", "data": data, "seed": seed}
    parts = {f"{name.lower()}{ending}" for name in configs for ending in ("", ".features")}
    whole = config.modality.open(config.data)
    network = new_model(config, whole)  # a missing package is an error before anything is written
    train_source, test = split_sources(network, config.data)
    if not config.modality.sides and (test.labels is None or not is_labelled(test.labels).any()):
        raise InputError(f"{data} has no labels, expected some: the demo measures how well features tell classes apart")
    folder = claim_folder(Path(out), RESULTS, {**about, "finished": False}, {REPORT, *parts}, overwrite)
    outcomes = []
    for name, side in configs.items():
        run = train(side, folder / name.lower(), title=f"{name:>3}")
        if config.modality.sides:
            outcomes.append(_measure_pairs(name, run, config, folder))
        else:
            outcomes.append(_measure(name, run, side, train_source, test, folder))
    outcomes += _baselines(config, train_source, test)
    table = _table(outcomes, test, _LABELS.get(data, 1.0))
    sides = {o.name: {**o.figures, "follows": o.meanings} for o in outcomes}
    write_atomically(folder / RESULTS, json.dumps({**about, "finished": True, **sides}, indent=1).encode())
    held_out = "held-out samples" + (", whose labels no probe has seen" if len(train_source) < len(whole) else "")
    _write_report(folder / REPORT, outcomes, table, config, f"{len(test)} {held_out}")
    rows = [(label, *figures) for label, figures, _ in table.rows]
    Console().print(rich_table(("on held-out samples", *table.columns), rows))
    print(f"\nTo see what the features mean, open {folder / REPORT}")
    return outcomes


def _config(data: str) -> TrainConfig:
    if data in _RECIPES:
        recipe = load_recipe(_RECIPES[data])
        return recipe.replace(data=data) if data in _GRAPHS else recipe
    if not Path(data).exists():
        raise InputError(f"data is {data!r}, expected {', '.join(_RECIPES)}, or the path of a graph, such as photo.npz")
    return load_recipe("graph").replace(data=data)


def with_epochs(config: TrainConfig, epochs: int) -> TrainConfig:
    """Return a config with another number of epochs, and no longer warm-up than that."""
    return dataclasses.replace(config, epochs=epochs, warmup_epochs=min(config.warmup_epochs, epochs))


def both_sides(config: TrainConfig) -> dict[str, TrainConfig]:
    """Return the configs of CL and NCL, given that of NCL.

    For pairs, CL has the temperature of NCL's loss before the rectifier, which suits it better.
    """
    plain = config.without_rectifier().replace(standardise=False)
    if config.modality.sides and config.dense_weight:
        plain = plain.replace(temperature=config.dense_temperature)
    return {"CL": plain, "NCL": config}


def _measure(name: str, run: Path, config: TrainConfig, train: Source, test: Source, folder: Path) -> Outcome:
    model = load(run)
    train_layers = model.embed(train, "both", media=False)
    test_layers = model.embed(test, "both")
    features = test_layers["projector"].with_provenance(_origin(run))
    _save(features, folder / f"{name.lower()}.features", model)
    figures = {
        "probe_encoder": _probe(train_layers["encoder"], test_layers["encoder"], config).accuracy,
        **_figures(train_layers["projector"], features, config),
        "seconds": _seconds(run),
    }
    return Outcome(name, run, features, figures, *_meanings(features, test))


def _origin(run: Path) -> dict[str, Any]:
    """Return what the provenance of features says about the run that made them."""
    return {"run": run.name, "weights": weights_digest(run)}


def _measure_pairs(name: str, run: Path, config: TrainConfig, folder: Path) -> Outcome:
    """Measure a run on held-out pairs; the page shows the pictures of all pairs."""
    model = load(run)
    test, every = (config.modality.open(config.data, split) for split in ("test", "all"))
    measured = measure_pairs(model, test, every, most_active=round(config.share * config.features))
    shown = measured.shown.with_provenance({**_origin(run), "side": config.modality.sides[0]})
    named = _save(shown, folder / f"{name.lower()}.features", model)
    strongest = [int(feature) for feature in measured.features.ranked()[:_NAMED]]
    words = {feature: {"words": named[feature].name} for feature in strongest if feature in named}
    figures = {**measured.figures, "seconds": _seconds(run)}
    return Outcome(name, run, measured.features, figures, words, {}, found_by_words(model, measured.features))


def _save(features: Features, folder: Path, model: Model) -> dict[int, Suggestion]:
    """Save features, and names for them where samples have words, except for dense ones: these have none of their own.

    Names are saved so that `nonneg search` explains its hits in words, as after `nonneg embed`.
    """
    features.save(folder)
    return save_suggestions(features, folder) if model.config.rectify != "none" else {}


def _seconds(run: Path) -> float:
    return float(sum(line["seconds"] for line in read_log(run)))


def _baselines(config: TrainConfig, train: Source, test: Source) -> list[Outcome]:
    """Return the outcome of word counts, for texts; nothing for other samples."""
    if config.modality.sides:
        return []
    texts, test_texts = (config.modality.preview(each, range(len(each))).get("texts") for each in (train, test))
    if texts is None or test_texts is None:
        return []
    codes = tf_idf(texts, test_texts)
    both = zip(codes, (train, test), strict=True)
    first, second = (Features(each, labels=s.labels, label_names=s.label_names) for each, s in both)
    return [Outcome(TF_IDF, None, second, _figures(first, second, config), *_meanings(second, test))]


def _probe(train: Features, test: Features, config: TrainConfig) -> Probe:
    share = _LABELS.get(config.data)
    return linear_probe(train, test) if share is None else few_labels(train, test, share)


def _figures(train: Features, test: Features, config: TrainConfig) -> dict[str, float]:
    codes, labels = test.codes, test.labels
    consistency = metrics.class_consistency(codes, labels)
    return {
        "probe_projector": _probe(train, test, config).accuracy,
        "class_consistency": consistency.value,
        "class_consistency_supported": consistency.supported,
        "class_consistency_floor": consistency.floor,
        "sparsity": metrics.sparsity(codes),
        "correlation": metrics.correlation(codes),
        "effective_rank": metrics.effective_rank(codes),
        "live": float(consistency.live),
        "features": float(test.shape[1]),
        "precision_at_10": metrics.precision_at_k(codes, labels, k=10),
    }


def _meanings(features: Features, test: Source) -> tuple[dict[int, dict[str, str]], dict[str, float]]:
    """Return the factors that each feature follows, and how many features would follow each factor by chance.

    A feature follows a factor if nearly all samples on which it is active, at least 10, have the same value of the
    factor. The chance count is the same with permuted values.
    """
    meanings: dict[int, dict[str, str]] = {}
    chance = {}
    rng = np.random.default_rng(0)
    for factor, values in test.factors.items():
        for feature in _followers(features, values):
            commonest = np.bincount(values[features.column(feature)[0]]).argmax()
            meanings.setdefault(feature, {})[factor] = test.factor_names[factor][commonest]
        chance[factor] = float(np.mean([len(_followers(features, rng.permutation(values))) for _ in range(20)]))
    return meanings, chance


def _followers(features: Features, values: npt.NDArray[np.int64]) -> list[int]:
    consistency = metrics.class_consistency(features.codes, values, permutations=0)
    follows = (consistency.per_feature >= _FOLLOWS) & consistency.supported_features
    return [int(feature) for feature in follows.nonzero()]


def _table(outcomes: list[Outcome], test: Source, share: float) -> Table:
    def row(label: str, meaning: str, form: str, key: str) -> tuple[str, tuple[str, ...], str]:
        cells = (form.format(**o.figures, value=o.figures[key]) if key in o.figures else "—" for o in outcomes)
        return label, tuple(cells), meaning

    predicted = "labels that a linear map predicts" + (f", fitted on {share:.0%} of the labels" if share < 1 else "")
    rows = [
        *(row(label, meaning, "{value:.1%}", key) for label, meaning, key in ROWS),
        row("linear probe, encoder", predicted, "{value:.1%}", "probe_encoder"),
        row("linear probe, projector", "the same, from the features themselves", "{value:.1%}", "probe_projector"),
        row(
            "class consistency",
            "share of the most common class among the samples on which a feature is active",
            "{value:.1%}",
            "class_consistency",
        ),
        row(
            "… with 10 or more active",
            "without features that are active too rarely; in brackets with permuted labels",
            "{value:.1%} (chance {class_consistency_floor:.1%})",
            "class_consistency_supported",
        ),
        row("sparsity", "share of a sample's features that are inactive", "{value:.1%}", "sparsity"),
        row("correlation", "mean cosine of two live features", "{value:.3f}", "correlation"),
        row("effective rank", "number of directions that the features use", "{value:.1f}", "effective_rank"),
        row("live features", "active on at least one sample", "{value:.0f} of {features:.0f}", "live"),
        row("precision@10", "share of nearest neighbours of the same class", "{value:.1%}", "precision_at_10"),
    ]
    rows = [each for each in rows if set(each[1]) != {"—"}]
    for factor in test.factors:
        counts = [sum(factor in meaning for meaning in o.meanings.values()) for o in outcomes]
        cells = tuple(f"{n} (chance {o.chance_followers[factor]:.1f})" for n, o in zip(counts, outcomes, strict=True))
        names = ", ".join(test.factor_names[factor])
        rows.append(
            (f"features that follow {factor}", cells, f"{_FOLLOWS:.0%} of active samples share a value: {names}")
        )
    rows.append(row("training time", "", "{value:.0f} s", "seconds"))
    return Table(tuple(o.name for o in outcomes), tuple(rows))


def _notes(outcome: Outcome) -> dict[int, str]:
    return {
        feature: ("words: " if "words" in meaning else "follows ") + ", ".join(meaning.values())
        for feature, meaning in outcome.meanings.items()
    }


def _write_report(path: Path, outcomes: list[Outcome], table: Table, config: TrainConfig, samples: str) -> None:
    trained = {o.name: o.run for o in outcomes if o.run is not None}
    made = read_environment(trained["NCL"])
    facts = {
        "data": f"{config.data}; figures and pictures of {samples}",
        "training": f"{config.epochs} epochs, batch {config.batch_size}, seed {config.seed}, the same for both",
        "layer": "projector output, unless the table says encoder",
        "probe": "logistic regression on cached features, regularisation chosen on a split of the training set",
        **({TF_IDF: "word counts weighted by rarity, scikit-learn's defaults"} if len(trained) < len(outcomes) else {}),
        "hardware": f"{made['device']}; {made['cores']} cores, {made['threads']} threads",
        "software": ", ".join(f"{name} {version}" for name, version in made["packages"].items()),
        "commit": made["commit"],
        "command": " ".join(made["command"]),
    }
    if config.modality.sides:
        del facts["probe"]
        facts["data"] += ", words of all pairs"
        active = round(config.share * config.features)
        cl = both_sides(config)["CL"]
        facts["CL"] = (
            f"temperature {cl.temperature:g} (NCL: {config.temperature:g}); for agreement and consistency, the {active}"
            " largest values of a sample count as active"
        )
    sides = [
        Side(o.name, _DESCRIPTIONS[o.name], o.projector, read_log(trained[o.name]), _notes(o))
        for o in outcomes
        if o.name in trained
    ]
    difference = (
        "The second one ends in a non-negative map, with the settings that keep its features in use."
        if config.standardise or config.share
        else "The only difference is a non-negative map at the end of the projector of the second one."
    )
    lead = f"Two networks trained on the same data with the same seed and budget. {difference}"
    searches = [
        Search(query, {o.name: [picture_of(o.projector, row) for row in o.found[query]] for o in outcomes})
        for query in outcomes[0].found
    ]
    write_report(path, f"Readable features: CL and NCL on {config.data}", lead, sides, table, facts, searches)
