"""`measure`: features and trained runs side by side, in one table with error bars."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nonneg import evaluate
from nonneg.devices import choose_device
from nonneg.environment import environment
from nonneg.errors import InputError
from nonneg.evaluate import Measured, Measurement, Subject, measure_features
from nonneg.features import Features
from nonneg.progress import progress_bar
from nonneg.trials._columns import as_list, open_columns
from nonneg.trials._parts import run_parts, shifted, transfer
from nonneg.trials._subject import TrainedSubject

_PROBE_EPOCHS, _FINE_TUNE_EPOCHS = 50, 30
USUAL_PARTS = tuple(name for name, part in evaluate.PARTS.items() if part.usual)
"""What `measure` measures by default."""
PARTS = (*evaluate.PARTS, *run_parts(_PROBE_EPOCHS, _FINE_TUNE_EPOCHS))
"""All that `measure` can measure."""


def measure(
    *subjects: Features | str | Path | Sequence[Features | str | Path],
    train: Sequence[Features | str | Path] = (),
    labels: str | Path | None = None,
    train_labels: str | Path | None = None,
    data: str | None = None,
    parts: Iterable[str] = USUAL_PARTS,
    transfer_to: Sequence[str] = (),
    shifted_to: Sequence[str] = (),
    names: Sequence[str] = (),
    probe_epochs: int = _PROBE_EPOCHS,
    fine_tune_epochs: int = _FINE_TUNE_EPOCHS,
    progress: bool = True,
) -> Measurement:
    """Measure features or trained runs, one column each, with confidence intervals and permuted-label floors.

    Both layers of a run are embedded, with batch norm in evaluation mode. Probes are fitted on the train split and
    evaluated on the test split; for features, 80% of the labelled rows are for fitting unless `train` is given.

    Args:
        subjects: `Features`, or paths: a trained run, a features folder, a file of vectors; or lists of them. Runs of
            different seeds share a column if their paths are joined by commas: `"runs/a-0,runs/a-1"`.
        train: what to fit probes on, one per subject; for features only.
        labels, train_labels: files with one label per row, if subjects or `train` are files of vectors.
        data: samples to measure runs on instead of those they were trained on.
        parts: some of `PARTS`: structure, probe, neighbours, few-labels, label-noise, random-splits, folds, clusters,
            and for runs public-split, sepin, partners, corruptions, augmented-probe, fine-tuning. A note names those
            that a subject lacks.
        transfer_to, shifted_to, probe_epochs, fine_tune_epochs: for runs, as for `measure_subject`.
        names: the names of the columns; the last parts of the paths if empty.
        progress: show a progress bar.

    Example:
        >>> import numpy as np
        >>> labels = np.arange(100) % 2
        >>> features = Features(np.eye(2, dtype=np.float32)[labels], labels=labels)
        >>> found = measure(features, parts=["structure", "probe"], progress=False)
        >>> found.values("features", ("probe", "projector")), found.values("features", ("sparsity", "projector"))
        ([1.0], [0.5])
    """
    settings = checked_parts(parts), as_list(transfer_to), as_list(shifted_to), probe_epochs, fine_tune_epochs
    opening = open_columns(subjects, train, labels, train_labels, data, names)
    columns: dict[str, tuple[Measured, ...]] = {}
    with progress_bar(progress) as bar:
        task = bar.add_task("", total=None)
        for name, column in opening.items():

            def show(part: str, name: str = name) -> None:
                bar.update(task, description=f"{name}: {part}")

            show("opening")
            columns[name] = tuple(measure_subject(opened, *settings, on_start=show) for opened in column)
    made = environment(choose_device())
    packages = ", ".join(f"{name} {version}" for name, version in made["packages"].items())
    facts = {"measured on": made["device"], "with": packages, "commit": str(made["commit"])}
    return Measurement(columns, facts)


def measure_subject(
    subject: Subject,
    parts: Iterable[str] = USUAL_PARTS,
    transfer_to: Sequence[str] = (),
    shifted_to: Sequence[str] = (),
    probe_epochs: int = _PROBE_EPOCHS,
    fine_tune_epochs: int = _FINE_TUNE_EPOCHS,
    on_start: Callable[[str], Any] = lambda part: None,
) -> Measured:
    """Measure one subject; a note says which parts it does not support.

    Args:
        subject: what `open_subject` returned.
        parts: some of `PARTS`.
        transfer_to: other data sets, on whose features a probe is fitted and evaluated.
        shifted_to: shifted data of the same classes, on which the run's own probe is evaluated.
        probe_epochs: epochs of augmented-probe.
        fine_tune_epochs: epochs of fine-tuning.
        on_start: called with the name of each part when it starts.
    """
    asked = checked_parts(parts)
    if isinstance(subject, TrainedSubject):
        known = {**evaluate.PARTS, **run_parts(probe_epochs, fine_tune_epochs)}
        wanted = {part: known[part] for part in asked}
        for data, name in _distinct_ends(transfer_to).items():
            wanted[f"transfer to {data}"] = transfer(subject, data, name)
        for data, name in _distinct_ends(shifted_to).items():
            wanted[f"shifted to {data}"] = shifted(subject, data, name)
        need_run = []
    else:
        wanted = {part: evaluate.PARTS[part] for part in asked if part in evaluate.PARTS}
        need_run = [part for part in asked if part not in wanted]
        need_run += [f"transfer to {data}" for data in transfer_to] + [f"shifted to {data}" for data in shifted_to]
    measured = measure_features(subject, wanted, on_start)
    if need_run:
        note = f"not measured, because {subject.path} is not a trained run: {', '.join(need_run)}"
        measured = replace(measured, notes=(*measured.notes, note))
    if not measured.figures:
        raise InputError(f"{measured.path}: nothing could be measured: {'; '.join(measured.notes)}")
    return measured


def checked_parts(parts: Iterable[str]) -> list[str]:
    """Return the parts without repetitions; an unknown one is an error, and a string is one part."""
    asked = list(dict.fromkeys(as_list(parts)))
    if unknown := [part for part in asked if part not in PARTS]:
        raise InputError(f"parts has {unknown[0]!r}, expected some of {', '.join(PARTS)}")
    return asked


def _distinct_ends(paths: Sequence[str]) -> dict[str, str]:
    """Path to its last parts, as few as make all of them different.

    Example:
        >>> _distinct_ends(["ood/sketch/val", "ood/stylised/val"])
        {'ood/sketch/val': 'sketch/val', 'ood/stylised/val': 'stylised/val'}
    """
    parts = {path: Path(path).parts for path in dict.fromkeys(paths)}
    for length in range(1, max(map(len, parts.values()), default=1)):
        short = {path: "/".join(part[-length:]) for path, part in parts.items()}
        if len(set(short.values())) == len(short):
            return short
    return {path: path for path in parts}
