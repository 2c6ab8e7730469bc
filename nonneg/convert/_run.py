"""`nonneg convert`: from a file of vectors to a run and its features. It resumes after an interruption."""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from nonneg.convert._classifier import NonNegativeClassifier
from nonneg.convert._config import checked_config
from nonneg.convert._embedding import NonNegativeEmbedding
from nonneg.convert._fit import Fit, memory_errors_as_input_errors
from nonneg.convert._inputs import Inputs, open_inputs
from nonneg.convert._neighbours import NEIGHBOURS
from nonneg.convert._store import as_json
from nonneg.convert._text_vectors import SentenceModel
from nonneg.devices import choose_device
from nonneg.durable import os_errors_as_input_errors, read_errors_as_input_errors, write_atomically
from nonneg.errors import InputError
from nonneg.features import Features, check_writable, is_features
from nonneg.labels import UNLABELLED
from nonneg.messages import counted
from nonneg.naming import NamingTask, save_suggestions
from nonneg.progress import print_line, progress_bar
from nonneg.runs import RunFolder, RunFormat
from nonneg.tables import split_name

_CHECKPOINT, _CLASSIFIER = "checkpoint", "classifier"
_FORMAT = RunFormat("nonneg convert", "config.json", frozenset((_CHECKPOINT, _CLASSIFIER)))
_LOG_EVERY = 50  # steps
_SAVE_EVERY = 5.0  # seconds
_DIGEST = 32  # bytes of a SHA-256, with which a checkpoint begins


@dataclass(frozen=True)
class Converted:
    """The run and the features that `convert_file` wrote.

    Attributes:
        run: the run's folder.
        features: the folder of the features.
        embedding: the fitted embedding.
        neighbours_kept: the share of nearest neighbours that the codes keep.
        neighbours: the number of nearest neighbours per row that were compared.
    """

    run: Path
    features: Path
    embedding: NonNegativeEmbedding
    neighbours_kept: float
    neighbours: int


def convert_file(
    vectors: str,
    out: Path | None = None,
    *,
    pairs: str | None = None,
    labels: str | None = None,
    ids: str | None = None,
    texts: str | None = None,
    media: str | None = None,
    label_names: Sequence[str] = (),
    sentence_model: str | None = None,
    embedding: NonNegativeEmbedding | None = None,
    classify: bool = False,
    namer: Callable[[NamingTask], str] | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> Converted:
    """Fit a `NonNegativeEmbedding` on a file of vectors or texts; write a run, and their `Features` next to it.

    The same call resumes an interrupted run, on the same device or on another one.

    Args:
        vectors: a .npy, .npz, .safetensors, .parquet, .arrow, .feather or .csv file; `file.npz:name` names an array.
            With `sentence_model` also texts: the lines of a .txt file, or a column, such as `file.csv:text`.
        out: the run's folder; `runs/` and the file's name by default. The features are written to `NAME.features`.
        pairs: vectors of the same shape: row i of both are two views of the same thing.
        labels: one label per row; saved with the features, and used as positives if the embedding is supervised.
        ids: one id per row, all different.
        texts: one text per row, for display; by default those that are encoded.
        media: a folder of images, for display: named by the ids, or one per row in the order of their names.
        label_names: the names of the labels, in their sorted order (0, 1, 2, …).
        sentence_model: the sentence model that encodes the texts or made the vectors; it is recorded, so that new texts
            can be encoded.
        embedding: how to convert; default parameters if omitted.
        classify: also fit a `NonNegativeClassifier` on the codes and labels, and write it to `classifier` in the run.
        namer: names the features from their texts, as for `nonneg.naming.suggest_names`.
        overwrite: replace an earlier run when the fit begins, and its features once the new ones are complete.
        progress: show progress bars on standard error.
    """
    embedding = embedding or NonNegativeEmbedding(random_state=0)
    config = checked_config(embedding.get_params())
    choose_device(embedding.device)
    out = _run_folder(vectors, out)
    features = out.with_name(f"{out.name}.features")
    _check_labels_given(labels, supervised=embedding.supervised, classify=classify)
    model = None if sentence_model is None else SentenceModel(sentence_model, embedding.device)
    given = open_inputs(vectors, pairs, labels, ids, texts, media, progress, model=model)
    given = _with_label_names(given, label_names, labels, 2 if classify else 0)
    with RunFolder(out, _FORMAT, _settings(given, embedding), overwrite) as run, memory_errors_as_input_errors(config):
        overwrite = overwrite or (run.resumes and _is_of_run(features, out.name))
        check_writable(features, overwrite)
        given = given.encoded(model, progress)
        fit = embedding.begin(given.vectors, given.labels, pairs=given.pairs)  # the last of the checks
        run.claim(fit.device)
        _fit(run, fit, embedding.max_iter, progress)
        embedding.finish(fit)
        kept, neighbours = embedding.score(given.vectors), min(NEIGHBOURS, len(given.vectors) - 1)
        embedded = _embedded(embedding, given, vectors, out, sentence_model)
        embedded.save(features, overwrite=overwrite)
        named = embedded.with_suggestions(save_suggestions(embedded, features, namer=namer, progress=progress))
        if classify:
            _classify(embedding, given, named).save_pretrained(out / _CLASSIFIER)
        embedding.save_pretrained(run.model, {f"neighbours kept of {neighbours}": kept})  # last: this completes the run
        with os_errors_as_input_errors(out):
            (out / _CHECKPOINT).unlink(missing_ok=True)
    return Converted(out, features, embedding, kept, neighbours)


def _check_labels_given(labels: str | None, **uses: bool) -> None:
    for name, is_set in uses.items():
        if is_set and labels is None:
            raise InputError(f"{name} is set without labels, expected one label per row")


def _run_folder(vectors: str, out: Path | None) -> Path:
    """The run's folder; it needs a name, because the features are named after it."""
    if out is None:
        path, name = split_name(vectors)
        out = Path("runs") / (path.stem if name is None else f"{path.stem}-{name}")
    if out.name in ("", ".."):
        raise InputError(f"out is {str(out)!r}, expected a folder with a name, such as runs/news")
    return out


def _settings(given: Inputs, embedding: NonNegativeEmbedding) -> bytes:
    """The run's configuration: everything that its result depends on, except for the device."""
    parameters = embedding.get_params(deep=False)
    kept = {name: value for name, value in parameters.items() if name not in ("device", "verbose")}
    return json.dumps({**given.files, **kept, "contents": given.contents}, indent=1, default=as_json).encode()


def _fit(run: RunFolder, fit: Fit, total: int, progress: bool) -> None:
    losses = _resume(run, fit) if run.resumes else []
    saved = time.monotonic()
    with progress_bar(progress) as bar:
        task = bar.add_task("fitting", total=total, completed=fit.done)
        while fit.done < total:
            losses.append(fit.step())
            bar.update(task, completed=fit.done)
            if fit.done % _LOG_EVERY == 0 or fit.done == total:
                run.log({"step": fit.done, "loss": float(torch.stack(losses).mean())})
                losses = []
            if time.monotonic() - saved > _SAVE_EVERY:
                _save(run, fit, losses)
                saved = time.monotonic()
    _save(run, fit, losses)


def _save(run: RunFolder, fit: Fit, losses: list[Tensor]) -> None:
    tensors = {**fit.state(), "losses": torch.stack(losses) if losses else torch.zeros(0)}
    content = save_tensors({name: value.detach().cpu().contiguous() for name, value in tensors.items()})
    write_atomically(run.folder / _CHECKPOINT, hashlib.sha256(content).digest() + content)


def _resume(run: RunFolder, fit: Fit) -> list[Tensor]:
    """Continue from the checkpoint, or start over without one; return the losses since the last line of the log."""
    path, losses = run.folder / _CHECKPOINT, []
    with read_errors_as_input_errors(path):
        content = path.read_bytes() if path.exists() else b""
    if content and hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
        state = load_tensors(content[_DIGEST:])
        losses = list(state.pop("losses").to(fit.device))
        fit.resume(state)
    elif content:
        print_line(f"{path} is damaged: the fit starts over", "yellow")
    run.truncate_log(fit.done)
    run.record_resumption(fit.done, fit.device)
    return losses


def _with_label_names(given: Inputs, names: Sequence[str], labels: str | None, least: int) -> Inputs:
    """Return the inputs with other names of the labels, which must be at least so many.

    Names that are the labels themselves change nothing, whatever their order.
    """
    known = given.label_names
    if len(known) < least:
        raise InputError(f"{labels} names one class, expected two or more to classify")
    if not names or (set(names) == set(known) and len(names) == len(known)):
        return given
    if len(names) != len(known) or len(set(names)) < len(names):
        found = f"{labels} holds {counted(len(known), 'label')}" if labels else "there are no labels"
        raise InputError(f"label_names are {', '.join(names)}, but {found}, expected one name per label, all different")
    if not _are_numbers(known):
        renamed = ", ".join(f"{label} → {name}" for label, name in zip(known, names, strict=True))
        print_line(f"label_names rename the labels of {labels} in their sorted order: {renamed}", "yellow")
    return dataclasses.replace(given, label_names=tuple(names))


def _are_numbers(labels: Sequence[str]) -> bool:
    return all(label.isdecimal() for label in labels)


def _embedded(
    embedding: NonNegativeEmbedding, given: Inputs, vectors: str, out: Path, sentence_model: str | None
) -> Features:
    return Features(
        embedding.encode(given.vectors),
        ids=given.ids,
        labels=given.labels,
        label_names=given.label_names,
        pixels=given.pixels,
        texts=given.texts,
        provenance={
            "source": vectors,
            "run": out.name,
            "layer": "projector",
            "report": dataclasses.asdict(embedding.report_),
            **({} if sentence_model is None else {"sentence_model": sentence_model}),
        },
    )


def _classify(embedding: NonNegativeEmbedding, given: Inputs, features: Features) -> NonNegativeClassifier:
    labels = np.asarray(given.labels)
    is_known = labels != UNLABELLED
    labelled = given.vectors if is_known.all() else np.asarray(given.vectors)[is_known]
    known: npt.NDArray[Any] = labels[is_known]
    if not _are_numbers(given.label_names):
        known = np.array(given.label_names)[known]  # explanations then name the classes
    return NonNegativeClassifier.on(embedding, labelled, known).with_names_of(features)


def _is_of_run(features: Path, run: str) -> bool:
    """Whether features are of a run of this name: of this one before it was interrupted, or of the one it replaces."""
    return is_features(features) and Features.load(features).provenance.get("run") == run
