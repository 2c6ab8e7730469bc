"""`nonneg reproduce`: the paper's tables and figures from scratch, in steps that can be resumed."""

import dataclasses
import itertools
import json
import signal
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from nonneg.devices import choose_device
from nonneg.durable import check_place, claim_folder, read_errors_as_input_errors, read_object, write_atomically
from nonneg.environment import environment
from nonneg.errors import InputError, StoppedError, UntrainableError
from nonneg.evaluate import match_features
from nonneg.features import Features
from nonneg.models import load
from nonneg.report import write_pictures
from nonneg.select import sweep
from nonneg.studies._demo import both_sides, with_epochs
from nonneg.studies._plan import ACTIVATIONS, Activation, Plan
from nonneg.studies._results_page import MADE_BY, SIDES, write_page
from nonneg.studies._steps import Step, StepStore
from nonneg.training import TrainConfig, load_recipe, new_model, read_environment, read_log, train
from nonneg.trials import (
    PARTS,
    embed_view,
    fine_tune,
    fine_tuning_figure,
    measure_subject,
    open_run,
    split_sources,
)

HEADS: dict[str, dict[str, Any]] = {  # name to whether it has its own projector, and what is rectified
    "CE": {"projector": False},
    "NCE": {"projector": False, "rectify": "relu", "rectify_weight": True},
    "CE + MLP": {"projector": True},
    "NCE + MLP": {"projector": True, "rectify": "relu"},
}
STARTS = ("scratch", "fine-tuned")
_PLAN, _DONE, _RUNS, _FEATURES = "plan.json", "done", "runs", "features"
_ADVICE = "; pass --overwrite to start again"
_NOTES = "notes.md"  # next to the page's pictures: further text for the page


def reproduce(plan: Plan, out: Path, page: Path, overwrite: bool = False) -> Path:
    """Do all steps that are not finished, and write the page.

    After an interruption the same call resumes: the figures of each step are stored as soon as it is finished, a
    training run resumes from its last checkpoint, and the page lists the steps that are missing.

    Args:
        plan: what to do.
        out: folder for runs, features and figures.
        page: the Markdown page to write; its pictures go to a folder of the same name next to it.
        overwrite: start again, discarding what `out` holds.

    Returns:
        The page.
    """
    if page.with_suffix("").resolve() == out.resolve():
        raise InputError(f"--page {page} would put its pictures into {out}, the folder of the runs; choose another")
    if page.is_file() and MADE_BY.encode() not in page.read_bytes():
        raise InputError(f"{page} exists and was not written by nonneg reproduce; choose another --page")
    study = Study(plan, out, page)
    study.require_data()
    with read_errors_as_input_errors(page):
        nearest = next(folder for folder in page.absolute().parents if folder.exists())
    # Missing folders are made with the page: an error below leaves none behind.
    check_place(page if page.absolute().parent == nearest else nearest / page.name)
    study.claim(overwrite)
    console = Console(stderr=True)
    steps = list(study.steps())
    for number, (step, work) in enumerate(steps, 1):
        if study.read(step) is None:
            console.print(f"[{number} of {len(steps)}] {step}", highlight=False, markup=False)
            try:
                study.write(step, work())
            except (StoppedError, KeyboardInterrupt) as error:
                sentence = f"stopped in the step {step}; the same command resumes it from {out}"
                if isinstance(error, StoppedError):
                    error.args = (sentence,)
                    raise
                raise StoppedError(sentence, signal.SIGINT) from None
            study.write_page()  # after each step, so that there is a page after an interruption
    return study.write_page()


def plan_file(plan: Plan) -> dict[str, Any]:
    """Return the content of the file that stores a plan."""
    return dict(json.loads(json.dumps({"made_by": "nonneg reproduce", "plan": dataclasses.asdict(plan)})))


class Study:
    """The steps of a plan, in order, and where their figures are stored."""

    def __init__(self, plan: Plan, out: Path, page: Path) -> None:
        self.plan, self.out, self.page = plan, out, page
        self.store = StepStore(out / _DONE)
        recipe = load_recipe(plan.recipe)
        self.config = dataclasses.replace(recipe, data=plan.data or recipe.data)

    def require_data(self) -> None:
        """Raise an error for missing data, or data without labels, before anything is written."""
        for data in (self.config.data, *self.plan.transfer_to, *self.plan.shifted_to):
            if self.config.modality.open(data).labels is None:
                raise InputError(f"{data} has no labels, expected images in class folders or with labels")

    def claim(self, overwrite: bool) -> None:
        """Create the folder, or check that it holds the same plan with at most as many seeds."""
        path, wanted = self.out / _PLAN, plan_file(self.plan)
        if overwrite or not path.is_file():
            claim_folder(self.out, _PLAN, wanted, {_DONE, _RUNS, _FEATURES}, overwrite)
            return
        stored = read_object(path, _ADVICE).get("plan")
        if not isinstance(stored, dict):
            raise InputError(f"{path} is damaged{_ADVICE}")
        for name, value in wanted["plan"].items():
            found = stored.get(name)
            is_more = name in ("seeds", "supervised_seeds") and isinstance(found, int) and found < value
            if found != value and not is_more:
                raise InputError(
                    f"{self.out} holds a reproduction with {name} {found!r}, not {value!r}; use the same value, choose"
                    " another --out or pass --overwrite to start again"
                )
        if stored != wanted["plan"]:  # more seeds: features are matched again over all of them
            self.store.path(Step("matching")).unlink(missing_ok=True)
            write_atomically(path, json.dumps(wanted, indent=1).encode())

    def steps(self) -> Iterator[tuple[Step, Callable[[], Any]]]:
        """Yield all steps and their work. Steps that need the runs of a seed are adjacent: runs may be removed."""
        for seed in range(self.plan.seeds):
            for side in SIDES:
                yield Step("run", side, seed=seed), partial(self.measured, side, seed)
            if seed == 0:
                yield Step("pictures"), self.pictures
                for side in SIDES:
                    yield Step("selection", side), partial(self.selection, side)
            if seed < self.plan.supervised_seeds:
                for start, head in itertools.product(STARTS, HEADS):
                    yield (
                        Step("supervised", start=start, head=head, seed=seed),
                        partial(self.supervised, start, head, seed),
                    )
        yield Step("matching"), self.matching
        if self.plan.ablation_epochs:
            for activation in ACTIVATIONS:
                yield Step("activation", activation=activation), partial(self.activation, activation)

    def read(self, step: Step) -> Any:
        """Return the figures of a finished step, or None."""
        figures = self.store.read(step)
        if step.part == "pictures" and figures is not None:
            files = (self.page.with_suffix("") / file for file in figures.values())
            return figures if all(file.is_file() for file in files) else None  # they may belong to another page
        return figures

    def write(self, step: Step, figures: Any) -> None:
        """Store the figures of a step."""
        self.store.write(step, figures)
        self.store.add_commits([environment(choose_device())])

    def write_page(self) -> Path:
        """Write the page from all finished steps."""
        notes = self.page.with_suffix("") / _NOTES
        text = notes.read_text("utf-8") if notes.is_file() else ""
        results = {step: self.read(step) for step, _ in self.steps()}
        return write_page(self.page, self.plan, results, self.store.commits(), text)

    # Work of the steps

    def run(self, side: str, seed: int) -> Path:
        """Return a trained run; train it if it does not exist."""
        config = with_epochs(self._config(side, seed), self.plan.epochs)
        return self._trained(config, f"{side.lower()}-{seed}", f"{side}, seed {seed}")

    def measured(self, side: str, seed: int) -> dict[str, Any]:
        """Return all figures that `measure` gives for a run."""
        run = self.run(side, seed)
        subject = open_run(str(run))
        parts = [part for part in PARTS if part != "fine-tuning"]
        found = measure_subject(
            subject, parts, self.plan.transfer_to, self.plan.shifted_to, probe_epochs=self.plan.probe_epochs
        )
        # Not by `measure_subject`, which gives no curve: for CL this is also the first of the supervised runs.
        epochs = self.plan.fine_tune_epochs
        tuned = fine_tune(subject.model, subject.train_source, subject.test_source, epochs=epochs, seed=seed)
        figure = fine_tuning_figure(tuned)
        found = dataclasses.replace(found, figures={**found.figures, (figure.key, figure.layer): figure})
        # Codes without images suffice for matching over seeds, and stay when the run is removed.
        subject.test["projector"].save(self._features(side, seed), overwrite=True)
        return found.to_dict() | {
            "fine_tuned": {"accuracy": tuned.accuracy, "curve": list(tuned.curve), "epochs": epochs},
            "epochs": len(read_log(run)),
            "seconds": sum(line["seconds"] for line in read_log(run)),
            "environment": environment(choose_device()),
        }

    def selection(self, side: str) -> dict[str, Any]:
        """Select fewer and fewer features of seed 0 by every selector."""
        model = load(str(self.run(side, 0))).to(choose_device())
        sources = split_sources(model, self.config.data)
        train_codes, test_codes = (model.embed(source, media=False) for source in sources)
        views = embed_view(model, sources[0], seed=self.config.seed)["projector"]
        return sweep(train_codes, test_codes, views=views, progress=False).to_dict()

    def matching(self) -> dict[str, Any]:
        """Match the features of all seeds."""
        found = {}
        for side in SIDES:
            sets = [self._kept_features(side, seed) for seed in range(self.plan.seeds)]
            if len(sets) > 1:
                found[side] = match_features(*sets).to_dict()
                if side == "CL":  # whose signs are arbitrary
                    found["CL, up to sign"] = match_features(*sets, signed=False).to_dict()
        return found

    def supervised(self, start: str, head: str, seed: int) -> dict[str, Any]:
        """Train with labels by cross entropy; return the test accuracy after each epoch."""
        measured = self.read(Step("run", "CL", seed=seed)) or {}
        if (start, head) == ("fine-tuned", "CE") and "fine_tuned" in measured:
            return dict(measured["fine_tuned"])
        if start == "scratch":
            source, epochs = self.config.modality.open(self.config.data), self.plan.supervised_epochs
            model = new_model(self._config("CL", seed), source)
        else:
            model = load(str(self.run("NCL" if head.startswith("NCE") else "CL", seed)))
            epochs = self.plan.fine_tune_epochs
        found = fine_tune(model, *split_sources(model, self.config.data), epochs=epochs, seed=seed, **HEADS[head])
        return {"accuracy": found.accuracy, "curve": list(found.curve), "epochs": epochs}

    def activation(self, activation: Activation) -> dict[str, Any]:
        """Train seed 0 with another activation, all else equal; if that fails, say why and use a tenth of the lr."""
        config = dataclasses.replace(with_epochs(self.config, self.plan.ablation_epochs), rectify=activation)
        slower = dataclasses.replace(config, lr=config.lr / 10)
        failed: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "NonNegative.* is a control")  # the page says this
            for tried, name in ((config, f"activation-{activation}"), (slower, f"activation-{activation}-slower")):
                try:
                    run = self._trained(tried, name, activation)
                except UntrainableError as error:
                    failed = failed or {"failed": str(error)}
                    continue
                found = measure_subject(open_run(str(run)), ("structure", "probe", "neighbours"))
                return found.to_dict() | failed | {"lr": tried.lr}
        return failed

    def pictures(self) -> dict[str, str]:
        """Write pictures of the test features of seed 0; return caption to file name in the page's folder."""
        sides = {}
        for side in SIDES:
            model = load(str(self.run(side, 0))).to(choose_device())
            sides[side] = model.embed(split_sources(model, self.config.data)[1])
        return {caption: file.name for caption, file in write_pictures(self.page.with_suffix(""), sides).items()}

    def _trained(self, config: TrainConfig, name: str, title: str) -> Path:
        """Return the run; train or resume it if it is not finished."""
        run = self.out / _RUNS / name
        if not (run / "model" / "config.json").is_file():  # written last
            train(config, run, title=title)
        made = read_environment(run)
        self.store.add_commits([made, *made.get("resumed", [])])
        return run

    def _config(self, side: str, seed: int) -> TrainConfig:
        return both_sides(dataclasses.replace(self.config, seed=seed))[side]

    def _kept_features(self, side: str, seed: int) -> Features:
        folder = self._features(side, seed)
        if not folder.is_dir():
            done = self.store.path(Step("run", side, seed=seed))
            raise InputError(f"{folder} does not exist; remove {done} to create it again")
        return Features.load(folder)

    def _features(self, side: str, seed: int) -> Path:
        return self.out / _FEATURES / f"{side.lower()}-{seed}.features"
