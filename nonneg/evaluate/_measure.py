"""`measure`: any features side by side, in a table that a reviewer would accept."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress, TaskID

from nonneg.environment import environment
from nonneg.errors import InputError
from nonneg.evaluate._figures import NEED_PROBE, NEED_RUN, PARTS, Figure, shifted, transfer
from nonneg.evaluate._measurement import Measured, Measurement
from nonneg.evaluate._subject import Subject, is_file_of_vectors, is_run, open_subject, parted
from nonneg.features import Features
from nonneg.models import Layer
from nonneg.progress import progress_bar

USUAL_PARTS = ("structure", "probe", "neighbours", "few-labels", "label-noise")


def measure(
    *subjects: Features | str,
    train: Sequence[Features | str] = (),
    labels: str | None = None,
    train_labels: str | None = None,
    data: str | None = None,
    parts: Iterable[str] = USUAL_PARTS,
    transfer_to: Sequence[str] = (),
    shifted_to: Sequence[str] = (),
    names: Sequence[str] = (),
    probe_epochs: int = 50,
    fine_tune_epochs: int = 30,
    progress: bool = True,
) -> Measurement:
    """Measure features or runs, one column each, with error bars and chance floors.

    Of a run both layers are embedded, batch norm in evaluation mode: probes are fitted on the train split and told
    on the test split. Of other features 80% of the labelled rows are for fitting, unless `train` is given.

    Args:
        subjects: `Features`, or paths: a trained run, a features folder, a file of vectors. Several paths with
            commas between are one thing trained with several seeds: `"runs/a-0,runs/a-1"`.
        train: for subjects that are features: what to fit probes on, one each, in order.
        labels: a file of labels, for files of vectors.
        train_labels: the same for those of `train`.
        data: images to measure runs on instead of those they were trained on.
        parts: some of structure, probe, neighbours, few-labels, label-noise, and for runs sepin, corruptions,
            augmented-probe, fine-tuning. What needs labels or a run is left out where there is none, with a note.
        transfer_to: for runs: other data sets, on whose features a probe is fitted and told.
        shifted_to: for runs: other images of the same classes, on which the run's own probe is told.
        names: of the columns, in order; by their paths if left out.
        probe_epochs: of augmented-probe.
        fine_tune_epochs: of fine-tuning.
        progress: show a bar on standard error.

    Example:
        >>> import numpy as np
        >>> labels = np.arange(100) % 2
        >>> features = Features(np.eye(2, dtype=np.float32)[labels], labels=labels)
        >>> found = measure(features, parts=["structure", "probe"], progress=False)
        >>> found.values("features", ("probe", "projector")), found.values("features", ("sparsity", "projector"))
        ([1.0], [0.5])
    """
    asked = _checked_parts(parts)
    if not subjects:
        raise InputError("nothing is given to measure, expected a run, features or a file of vectors")
    for name, given in (("train", train), ("names", names)):
        if given and len(given) != len(subjects):
            raise InputError(f"{name} has {len(given)} entries, expected {len(subjects)}, one for each subject")
    called = list(names) or _names(subjects)
    if len(set(called)) < len(called):
        raise InputError(f"names has {called}, expected a different one for each subject")
    paths = [path for each in subjects if isinstance(each, str) for path in _paths(each)]
    if labels is not None and paths and not any(is_file_of_vectors(path) for path in paths):
        raise InputError(f"labels is {labels}, expected none, as no file of vectors is given")
    fitted_on: list[Features | str | None] = [*train] or [None] * len(subjects)
    opening: Sequence[Iterable[Subject]] = [
        _opened(subject, fit, labels, train_labels, data) for subject, fit in zip(subjects, fitted_on, strict=True)
    ]
    if not any(map(is_run, paths)):
        opening = _of_one_layer([tuple(each) for each in opening])
    columns: dict[str, tuple[Measured, ...]] = {}
    with progress_bar(progress) as bar:
        task = bar.add_task("", total=None)
        for name, subject in zip(called, opening, strict=True):
            bar.update(task, description=f"{name}: opening")
            columns[name] = tuple(
                measure_subject(
                    opened,
                    asked,
                    transfer_to,
                    shifted_to,
                    probe_epochs,
                    fine_tune_epochs,
                    partial(_say, bar, task, name),
                )
                for opened in subject
            )
    return Measurement(columns, _facts())


def _say(bar: Progress, task: TaskID, name: str, part: str) -> None:
    bar.update(task, description=f"{name}: {part}")


def measure_subject(
    subject: Subject,
    parts: Iterable[str],
    transfer_to: Sequence[str] = (),
    shifted_to: Sequence[str] = (),
    probe_epochs: int = 50,
    fine_tune_epochs: int = 30,
    begun: Callable[[str], Any] = lambda part: None,
) -> Measured:
    """The figures of one subject; of parts that it cannot give, a note says why.

    Args:
        subject: what `open_subject` gave.
        parts, transfer_to, shifted_to, probe_epochs, fine_tune_epochs: as for `measure`.
        begun: told the name of each part when it begins.
    """
    budgets = {"augmented-probe": {"epochs": probe_epochs}, "fine-tuning": {"epochs": fine_tune_epochs}}
    work = {part: PARTS[part](subject, **budgets.get(part, {})) for part in _checked_parts(parts)}
    for kind, told_of, others in (("transfer", transfer, transfer_to), ("shifted", shifted, shifted_to)):
        for data, name in _short_names(others).items():
            # A run's is opened now: who named data that cannot be used learns so before the work.
            work[f"{kind} to {data}"] = told_of(subject, data, name) if subject.trained else iter(())
    figures: dict[tuple[str, Layer], Figure] = {}
    notes, left_out = [], dict[str, list[str]]()
    for part, found in work.items():
        if subject.trained is None and (part in NEED_RUN or part not in PARTS):
            left_out.setdefault(f"{subject.path} is no trained run", []).append(part)
            continue
        if not subject.train and (part in NEED_PROBE or part.startswith("shifted")):
            left_out.setdefault(f"{subject.path} comes {subject.protocol}", []).append(part)
            continue
        begun(part)
        try:
            told = list(found)
            figures |= {(figure.key, figure.layer): figure for figure in told}
            if not told:
                notes.append(f"{part} could not be measured: too few samples are labelled")
        except InputError as error:
            if part not in PARTS:  # other data, which somebody named
                raise
            # What the subject's own data is too small for; the other parts stay.
            notes.append(f"{part} could not be measured: {error}")
    notes += [f"left out, as {reason}: {', '.join(lacking)}" for reason, lacking in left_out.items()]
    if not figures:
        raise InputError(f"{subject.path}: nothing could be measured: {'; '.join(notes)}")
    return Measured(subject.path, subject.seed, subject.protocol, figures, subject.samples, tuple(notes))


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """The ends of paths, as short as tells them apart.

    Example:
        >>> _short_names(["ood/sketch/val", "ood/stylised/val"])
        {'ood/sketch/val': 'sketch/val', 'ood/stylised/val': 'stylised/val'}
    """
    parts = {path: Path(path).parts for path in dict.fromkeys(paths)}
    for length in range(1, max(map(len, parts.values()), default=1)):
        short = {path: "/".join(part[-length:]) for path, part in parts.items()}
        if len(set(short.values())) == len(short):
            return short
    return {path: path for path in parts}


def _checked_parts(parts: Iterable[str]) -> list[str]:
    asked = list(dict.fromkeys(parts))
    unknown = [part for part in asked if part not in PARTS]
    if unknown:
        raise InputError(f"parts has {unknown[0]!r}, expected some of {', '.join(PARTS)}")
    return asked


def _of_one_layer(columns: Sequence[tuple[Subject, ...]]) -> Sequence[tuple[Subject, ...]]:
    """Features of one layer each stand side by side, whatever their layers: those of different ones go by one name."""
    layers = {layer for column in columns for one in column for layer in one.whole}
    if len(layers) < 2:
        return columns

    def named_alike(one: Subject) -> Subject:
        whole, train, test = (
            dict[Layer, Features](zip(("projector",), parts.values(), strict=False))
            for parts in (one.whole, one.train, one.test)
        )
        return replace(one, whole=whole, train=train, test=test)

    return [tuple(map(named_alike, column)) for column in columns]


def _opened(
    subject: Features | str,
    train: Features | str | None,
    labels: str | None,
    train_labels: str | None,
    data: str | None,
) -> Iterator[Subject]:
    if isinstance(subject, Features):
        if isinstance(train, str):
            raise InputError(f"train has the path {train}, expected Features, as the subject is")
        for name, path in (("labels", labels), ("train_labels", train_labels)):
            if path is not None:
                raise InputError(f"{name} is given for Features, which have their own, expected none")
        yield parted(subject, "features", train)
        return
    if isinstance(train, Features):
        raise InputError(f"train has Features, expected a path, as the subject {subject} is")
    seeds = set()
    paths = _paths(subject)
    for path in paths:
        of_path = labels if is_file_of_vectors(path) else None
        opened = open_subject(path, train, of_path, data, train_labels=train_labels)
        if len(paths) > 1 and (opened.seed is None or opened.seed in seeds):
            found = "no seed" if opened.seed is None else f"seed {opened.seed}, as another of its column"
            raise InputError(f"{path} has {found}, expected runs with a seed of their own")
        seeds.add(opened.seed)
        yield opened


def _paths(subject: str) -> list[str]:
    """Those with commas between, unless that is what something is called."""
    return [subject] if Path(subject).exists() else subject.split(",")


def _names(subjects: Sequence[Features | str]) -> list[str]:
    """Short names of the columns: the ends of their paths, numbered where they are the same."""
    names: list[str] = []
    for subject in subjects:
        first = "features" if isinstance(subject, Features) else _paths(subject)[0].rstrip("/").rpartition("/")[2]
        name = first.removesuffix(".features")
        same = sum(other.partition(" #")[0] == name for other in names)
        names.append(f"{name} #{same + 1}" if same else name)
    return names


def _facts() -> Mapping[str, str]:
    made: dict[str, Any] = environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    packages = ", ".join(f"{name} {version}" for name, version in made["packages"].items())
    return {"measured on": made["device"], "with": packages, "commit": str(made["commit"])}
