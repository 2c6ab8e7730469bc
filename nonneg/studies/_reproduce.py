"""`nonneg reproduce`: the paper's tables and figures from nothing, in steps that are done once each."""

import dataclasses
import itertools
import json
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from nonneg.durable import claim_folder, read_errors_as_input_errors, write_atomically
from nonneg.environment import environment
from nonneg.errors import InputError, StoppedError, UntrainableError
from nonneg.evaluate import match_features
from nonneg.features import Features
from nonneg.modalities import Source
from nonneg.modalities.images import open_source
from nonneg.models import load
from nonneg.report import write_pictures
from nonneg.select import sweep
from nonneg.studies._plan import ACTIVATIONS, Activation, Plan
from nonneg.studies._results_page import MADE_BY, write_page
from nonneg.training import TrainConfig, load_recipe, new_model, read_environment, read_log, train
from nonneg.trials import (
    PARTS,
    fine_tune,
    fine_tuning_figure,
    measure_subject,
    open_run,
    split_sources,
    viewed_source,
)

SIDES = ("CL", "NCL")
HEADS: dict[str, dict[str, Any]] = {  # name to whether it has a projector of its own, and what is rectified
    "CE": {"projector": False},
    "NCE": {"projector": False, "rectify": "relu", "rectify_weight": True},
    "CE + MLP": {"projector": True},
    "NCE + MLP": {"projector": True, "rectify": "relu"},
}
STARTS = ("scratch", "fine-tuned")
_PLAN, _DONE, _RUNS, _FEATURES = "plan.json", "done", "runs", "features"
_NOTES = "notes.md"  # beside the page's pictures: what else whoever made the page wants it to say
_PICTURES, _MATCHING, _COMMITS = "pictures", "matching", "commits"
_HELD = {  # what the page takes from the file of a step, by the first word of the step's name
    **{side: {"figures"} for side in SIDES},
    _MATCHING: {"agreement", "floor", "live", "at_least"},
    "selection": {"points"},
    "supervised": {"accuracy", "curve"},
}

Step = tuple[str, Callable[[], Any]]


def reproduce(plan: Plan, out: Path, page: Path, overwrite: bool = False) -> Path:
    """Do what is not done yet, and write the page.

    Interrupted, the same call goes on: each step's figures are kept as they come, a training run that was
    cut off is taken up at its last checkpoint, and the page says what is not done yet.

    Args:
        plan: what to do.
        out: folder for runs, features and figures.
        page: the Markdown page to write; its pictures go to a folder of its name beside it.
        overwrite: start over, whatever is in `out`.

    Returns:
        The page.
    """
    if page.with_suffix("").resolve() == out.resolve():
        raise InputError(f"--page {page} has its pictures in {out}, where the runs are; choose another --page or --out")
    if page.exists() and MADE_BY.encode() not in page.read_bytes():
        raise InputError(f"{page} exists already and is no page of nonneg reproduce; choose another --page")
    asked = plan_file(plan)
    study = Study(plan, out, page)
    study.require_data()
    if overwrite or not (out / _PLAN).is_file():
        claim_folder(out, _PLAN, asked, {_DONE, _RUNS, _FEATURES}, overwrite)
    else:
        refuse_another(out, asked)
        study.grow(asked)
    console = Console(stderr=True)
    steps = list(study.steps())
    for number, (name, work) in enumerate(steps, 1):
        if study.read(name) is None:
            console.print(f"[{number} of {len(steps)}] {name}", highlight=False, markup=False)
            try:
                study.write(name, work())
            except (StoppedError, KeyboardInterrupt) as error:
                told = f"stopped in {name}, of which {out} holds what was done: the same command goes on"
                if isinstance(error, StoppedError):
                    error.args = (told,)
                    raise
                raise StoppedError(told, signal.SIGINT) from None
            # After each step: whoever stops it has a page of what is done.
            study.write_page()
    return study.write_page()


def plan_file(plan: Plan) -> dict[str, Any]:
    """A plan as it is kept."""
    return dict(json.loads(json.dumps({"made_by": "nonneg reproduce", "plan": dataclasses.asdict(plan)})))


def refuse_another(out: Path, asked: dict[str, Any]) -> None:
    """A folder goes on with the plan it was begun with; only seeds can be added."""
    with read_errors_as_input_errors(out / _PLAN):
        text = (out / _PLAN).read_bytes()
    try:
        begun = dict(json.loads(text)["plan"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{out / _PLAN} is damaged; pass --overwrite to start over") from error
    for name, value in asked["plan"].items():
        more = name in ("seeds", "supervised_seeds") and isinstance(begun.get(name), int) and begun[name] < value
        if begun.get(name) != value and not more:
            raise InputError(
                f"{out} holds a reproduction with {name} {begun.get(name)!r}, not {value!r}; go on with the same,"
                " choose another --out or pass --overwrite to start over"
            )


class Study:
    """The steps of a plan, in order, and where their figures are kept."""

    def __init__(self, plan: Plan, out: Path, page: Path) -> None:
        self.plan, self.out, self.page = plan, out, page
        recipe = load_recipe(plan.recipe)
        self.config = dataclasses.replace(recipe, data=plan.data or recipe.data)

    def require_data(self) -> None:
        """Refuse data that is not there before anything is written."""
        for data in (self.config.data, *self.plan.transfer_to, *self.plan.shifted_to):
            open_source(data, image_size=self.config.image_size, skip_broken=self.config.skip_broken)

    def steps(self) -> Iterator[Step]:
        """Names and work. What needs the runs of a seed comes together: another day they may be gone."""
        for seed in range(self.plan.seeds):
            for side in SIDES:
                yield f"{side}, seed {seed}", partial(self.measured, side, seed)
            if seed == 0:
                yield _PICTURES, self.pictures
                for side in SIDES:
                    yield f"selection, {side}", partial(self.selection, side)
            if seed < self.plan.supervised_seeds:
                for start, head in itertools.product(STARTS, HEADS):
                    yield f"supervised, {start}, {head}, seed {seed}", partial(self.supervised, start, head, seed)
        yield _MATCHING, self.matching
        if self.plan.ablation_epochs:
            for activation in ACTIVATIONS:
                yield f"activation, {activation}", partial(self.activation, activation)

    def grow(self, asked: dict[str, Any]) -> None:
        """To more seeds than before: those that are done stay, and features are matched over all of them."""
        if json.loads((self.out / _PLAN).read_bytes()) != asked:
            self._path(_MATCHING).unlink(missing_ok=True)
            write_atomically(self.out / _PLAN, json.dumps(asked, indent=1).encode())

    # Keeping figures

    def read(self, name: str) -> Any:
        """The figures of a step that is done, or None."""
        path = self._path(name)
        if not path.is_file():
            return None
        with read_errors_as_input_errors(path):
            text = path.read_bytes()
        try:
            figures = json.loads(text)
        except ValueError:
            figures = None
        if not _is_of(name, figures):
            raise InputError(f"{path} is damaged; remove it, and what it held is done again")
        if name == _PICTURES and not all((self.page.with_suffix("") / file).is_file() for file in figures.values()):
            return None  # of another page
        return figures

    def write(self, name: str, figures: Any) -> None:
        self._keep(name, figures)
        self._note_commits([environment(torch.device(_place()))])

    def write_page(self) -> Path:
        """What is done so far."""
        notes = self.page.with_suffix("") / _NOTES
        told = notes.read_text() if notes.is_file() else ""
        done = {name: self.read(name) for name, _ in self.steps()}
        return write_page(self.page, self.plan, done, self._commits(), told)

    def _commits(self) -> list[str]:
        """Of the code that made runs and figures: it may have changed on the way."""
        return self.read(_COMMITS) or []

    def _note_commits(self, environments: Iterable[dict[str, Any]]) -> None:
        known = self._commits()
        if new := [made["commit"] for made in environments if made["commit"] not in known]:
            self._keep(_COMMITS, [*known, *dict.fromkeys(new)])

    def _keep(self, name: str, content: Any) -> None:
        self._path(name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path(name), json.dumps(content, indent=1).encode())

    def _path(self, name: str) -> Path:
        return self.out / _DONE / f"{name.replace(', ', '-').replace(' ', '-').lower()}.json"

    # The steps

    def run(self, side: str, seed: int) -> Path:
        """A trained run, trained now if it is not there."""
        config = self._with_epochs(self._config(side, seed), self.plan.epochs)
        return self._trained(config, f"{side.lower()}-{seed}", f"{side}, seed {seed}")

    def measured(self, side: str, seed: int) -> dict[str, Any]:
        """Everything `measure` knows of a run."""
        run = self.run(side, seed)
        subject = open_run(str(run))
        parts = [part for part in PARTS if part != "fine-tuning"]
        found = measure_subject(
            subject, parts, self.plan.transfer_to, self.plan.shifted_to, probe_epochs=self.plan.probe_epochs
        )
        # By hand, for its curve: of CL it is the first of the supervised ones, and need not be trained again.
        trained, epochs = subject.trained, self.plan.fine_tune_epochs
        tuned = fine_tune(trained.model, trained.train, trained.test, epochs=epochs, seed=seed)
        figure = fine_tuning_figure(tuned)
        found = dataclasses.replace(found, figures={**found.figures, (figure.key, figure.layer): figure})
        # Codes without images: matching over seeds needs no more, and it stays when the run is gone.
        subject.test["projector"].save(self._features(side, seed), overwrite=True)
        return found.to_dict() | {
            "fine_tuned": {"accuracy": tuned.accuracy, "curve": list(tuned.curve), "epochs": epochs},
            "epochs": len(read_log(run)),
            "seconds": sum(line["seconds"] for line in read_log(run)),
            "environment": environment(torch.device(_place())),
        }

    def selection(self, side: str) -> dict[str, Any]:
        """Fewer and fewer features of seed 0, by every selector."""
        model = load(str(self.run(side, 0)))
        model.to(_place())
        train_images, test_images = split_sources(model, self.config.data)
        again = viewed_source(train_images, self.config.views, seed=self.config.seed)
        train_codes, test_codes, views = (
            model.embed(source, media=False) for source in (train_images, test_images, again)
        )
        return sweep(train_codes, test_codes, views=views, progress=False).to_dict()

    def matching(self) -> dict[str, Any]:
        """Are the features of several seeds the same?"""
        found = {}
        for side in SIDES:
            sets = [self._kept_features(side, seed) for seed in range(self.plan.seeds)]
            if len(sets) > 1:
                found[side] = match_features(*sets).to_dict()
                if side == "CL":  # free up to their sign
                    found["CL, up to sign"] = match_features(*sets, signed=False).to_dict()
        return found

    def supervised(self, start: str, head: str, seed: int) -> dict[str, Any]:
        """Cross entropy with labels: accuracy on the test split after each epoch."""
        if (start, head) == ("fine-tuned", "CE") and (done := self.read(f"CL, seed {seed}").get("fine_tuned")):
            return dict(done)
        if start == "scratch":
            model, epochs = new_model(self._config("CL", seed), self._images()), self.plan.supervised_epochs
        else:
            model = load(str(self.run("NCL" if head.startswith("NCE") else "CL", seed)))
            epochs = self.plan.fine_tune_epochs
        train_images, test_images = split_sources(model, self.config.data)
        found = fine_tune(model, train_images, test_images, epochs=epochs, seed=seed, **HEADS[head])
        return {"accuracy": found.accuracy, "curve": list(found.curve), "epochs": epochs}

    def activation(self, activation: Activation) -> dict[str, Any]:
        """One map at the projector's end, all else equal, seed 0; if it diverges, at a tenth of lr, and why."""
        config = dataclasses.replace(self._with_epochs(self.config, self.plan.ablation_epochs), rectify=activation)
        slower = dataclasses.replace(config, lr=config.lr / 10)  # for maps with which the recipe's rate is too fast
        failed: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "NonNegative.* is a control")  # the page says so
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
        """Caption to file name, in the page's folder: test features of seed 0 with their images."""
        sides = {}
        for side in SIDES:
            model = load(str(self.run(side, 0))).to(_place())
            sides[side] = model.embed(split_sources(model, self.config.data)[1])
        return {caption: file.name for caption, file in write_pictures(self.page.with_suffix(""), sides).items()}

    def _trained(self, config: TrainConfig, name: str, title: str) -> Path:
        """The run, trained or taken up if it is not finished."""
        run = self.out / _RUNS / name
        if not (run / "model" / "config.json").is_file():  # which is written last
            train(config, run, title=title)
        made = read_environment(run)
        self._note_commits([made, *made.get("resumed", [])])
        return run

    def _config(self, side: str, seed: int) -> TrainConfig:
        config = dataclasses.replace(self.config, seed=seed)
        return config if side == "NCL" else dataclasses.replace(config, rectify="none", top_k=0)

    def _images(self) -> Source:
        return open_source(self.config.data, image_size=self.config.image_size, skip_broken=self.config.skip_broken)

    def _kept_features(self, side: str, seed: int) -> Features:
        folder = self._features(side, seed)
        if not folder.is_dir():
            again = self._path(f"{side}, seed {seed}")
            raise InputError(f"{folder} is gone; remove {again}, and it is made again")
        return Features.load(folder)

    def _features(self, side: str, seed: int) -> Path:
        return self.out / _FEATURES / f"{side.lower()}-{seed}.features"

    def _with_epochs(self, config: TrainConfig, epochs: int) -> TrainConfig:
        if not epochs:
            return config
        return dataclasses.replace(config, epochs=epochs, warmup_epochs=min(config.warmup_epochs, epochs))


def _is_of(name: str, figures: Any) -> bool:
    """Whether figures have what the page takes from those of this step."""
    if name == _COMMITS:
        return isinstance(figures, list)
    if name == _PICTURES:
        return isinstance(figures, dict) and all(isinstance(file, str) for file in figures.values())
    told = list(figures.values()) if name == _MATCHING and isinstance(figures, dict) else [figures]
    return all(isinstance(one, dict) and _HELD.get(name.split(", ")[0], set()) <= one.keys() for one in told)


def _place() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
