"""The columns of a measurement: what was named, opened and given a short name."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from nonneg.errors import InputError
from nonneg.evaluate import Subject, is_vector_file, split_features
from nonneg.features import Features, check_features
from nonneg.messages import counted
from nonneg.trials._subject import is_run, open_subject
from nonneg.validation import check_type


def open_columns(
    subjects: Sequence[Any],
    train: Any,
    labels: str | Path | None,
    train_labels: str | Path | None,
    data: str | None,
    names: Sequence[str],
) -> dict[str, Iterable[Subject]]:
    """Return column name to its subjects, one per seed. Runs are opened when they are iterated over.

    Args:
        subjects, train, labels, train_labels, data, names: as for `measure`.
    """
    subjects = [each for given in subjects for each in _opened_or_paths("subject", given)]
    if not subjects:
        raise InputError("no subject is given, expected a run, features or a file of vectors to measure")
    train, names = _opened_or_paths("train", train), as_list(names)
    for name, path in (("labels", labels), ("train_labels", train_labels)):
        check_type(name, path, str | PathLike | None, "the path of a file with one label per row")
    labels, train_labels = (None if path is None else fspath(path) for path in (labels, train_labels))
    for name, given in (("train", train), ("names", names)):
        if given and len(given) != len(subjects):
            raise InputError(
                f"{name} has {counted(len(given), 'entry', 'entries')}, expected {len(subjects)}, one per subject"
            )
    names = names or _short_names(subjects)
    if len(set(names)) < len(names):
        raise InputError(f"names is {list(names)}, expected a different name for each subject")
    paths = [path for each in subjects if isinstance(each, str) for path in _paths(each)]
    if labels is not None and paths and not any(map(is_vector_file, paths)):
        raise InputError(f"labels is {labels}, expected none, because no file of vectors is given")
    fitted_on: Sequence[Features | str | None] = [*train] or [None] * len(subjects)
    columns: list[Iterable[Subject]] = [
        _opened(subject, fit, labels, train_labels, data) for subject, fit in zip(subjects, fitted_on, strict=True)
    ]
    if not any(map(is_run, paths)):
        columns = list(_in_one_layer([tuple(column) for column in columns]))
    return dict(zip(names, columns, strict=True))


def as_list(given: Any) -> list[Any]:
    """Return several things as a list; a single one, such as a string or `Features`, is a list of one."""
    is_one = not isinstance(given, Iterable) or isinstance(given, str) or hasattr(given, "shape")
    return [given] if is_one else list(given)


def _opened_or_paths(name: str, given: Any) -> list[Features | str]:
    several = as_list(given)
    for each in several:
        check_features(each, name, paths=True)
    return [each if isinstance(each, Features) else fspath(each) for each in several]


def _opened(
    subject: Features | str,
    train: Features | str | None,
    labels: str | None,
    train_labels: str | None,
    data: str | None,
) -> Iterator[Subject]:
    if isinstance(subject, Features):
        if isinstance(train, str):
            raise InputError(f"train has the path {train}, expected Features, because the subject is Features")
        for name, path in (("labels", labels), ("train_labels", train_labels)):
            if path is not None:
                raise InputError(f"{name} is {path}, expected none for Features, which have their own")
        yield split_features(subject, "features", train)
        return
    if isinstance(train, Features):
        raise InputError(f"train has Features, expected a path, because the subject is the path {subject}")
    seeds = set()
    paths = _paths(subject)
    for path in paths:
        own_labels = labels if is_vector_file(path) else None
        opened = open_subject(path, train, own_labels, data, train_labels=train_labels)
        if len(paths) > 1 and (opened.seed is None or opened.seed in seeds):
            found = "no seed" if opened.seed is None else f"seed {opened.seed}, like another run of its column"
            raise InputError(f"{path} has {found}, expected runs with different seeds")
        seeds.add(opened.seed)
        yield opened


def _in_one_layer(columns: Sequence[tuple[Subject, ...]]) -> Sequence[tuple[Subject, ...]]:
    """Give features of different layers the same layer name, so that they share the rows of a table."""
    if len({layer for column in columns for subject in column for layer in subject.whole}) < 2:
        return columns

    def as_projector(subject: Subject) -> Subject:
        whole, train, test = (
            dict(zip(("projector",), layers.values(), strict=False))
            for layers in (subject.whole, subject.train, subject.test)
        )
        return replace(subject, whole=whole, train=train, test=test)

    return [tuple(map(as_projector, column)) for column in columns]


def _paths(subject: str) -> list[str]:
    """Split at commas, unless a file or folder has this very name."""
    return [subject] if Path(subject).exists() else subject.split(",")


def _short_names(subjects: Sequence[Features | str]) -> list[str]:
    """The last parts of the paths, numbered if they are the same."""
    names: list[str] = []
    for subject in subjects:
        first = Path("features" if isinstance(subject, Features) else _paths(subject)[0])
        name = (first.name or str(first)).removesuffix(".features")
        same = sum(other.partition(" #")[0] == name for other in names)
        names.append(f"{name} #{same + 1}" if same else name)
    return names
