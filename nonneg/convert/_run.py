"""`nonneg convert`: vectors in a file to a run and its features, surviving a kill."""

import dataclasses
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from nonneg.convert._classifier import NonNegativeClassifier
from nonneg.convert._embedding import NonNegativeEmbedding
from nonneg.convert._fit import Fit
from nonneg.convert._inputs import Inputs, open_inputs
from nonneg.convert._parameters import checked_config, device_of
from nonneg.durable import TEMPORARY_PREFIX, claim_folder, made_by, read_plainly, said_plainly, write_bytes
from nonneg.errors import InputError
from nonneg.features import Features, is_features
from nonneg.progress import progress_bar
from nonneg.training import environment

CONFIG, LOG, ENVIRONMENT, MODEL, CHECKPOINT = "config.json", "log.jsonl", "environment.json", "model", "checkpoint"
CLASSIFIER = "classifier"
_MAKER = "nonneg convert"
_LOG_EVERY = 50  # steps
_SAVE_EVERY = 5.0  # seconds


@dataclass(frozen=True)
class Converted:
    """What `convert` has written, and what it measured."""

    run: Path
    features: Path
    embedding: NonNegativeEmbedding
    neighbours_kept: float


def convert_file(
    vectors: str,
    out: Path | None = None,
    *,
    pairs: str | None = None,
    labels: str | None = None,
    ids: str | None = None,
    texts: str | None = None,
    media: str | None = None,
    embedding: NonNegativeEmbedding | None = None,
    classify: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> Converted:
    """Fit a `NonNegativeEmbedding` on vectors in a file; write a run, and the `Features` of the vectors beside it.

    Called again after a kill it goes on where it was.

    Args:
        vectors: a .npy, .npz, .safetensors, .parquet or .csv file; `file.npz:name` names one of several arrays.
        out: the run's folder; `runs/` and the file's name if left out. Features go beside it, as `NAME.features`.
        pairs: vectors of the same shape: row i of both are two views of one thing.
        labels: one label a row; kept with the features, and used as positives if the embedding is supervised.
        ids: one id a row, all different.
        texts: one text a row, to be shown.
        media: a folder of images, to be shown: named by the ids, or as many as there are rows, in order of names.
        embedding: how to convert; the defaults if left out.
        classify: fit a `NonNegativeClassifier` on the codes and labels, too, and write it to `classifier` in the run.
        overwrite: replace an earlier run and its features.
        progress: show bars on standard error.
    """
    embedding = embedding or NonNegativeEmbedding(random_state=0)
    checked_config(embedding.get_params(), 0)
    device_of(embedding.device)
    if classify and labels is None:
        raise InputError("classify is set without labels, expected one label a row")
    given = open_inputs(vectors, pairs, labels, ids, texts, media, progress)
    out = Path("runs") / _name(vectors) if out is None else out
    features = out.with_name(f"{out.name}.features")
    asked = {
        "inputs": given.described,
        "embedding": {name: value for name, value in embedding.get_params(deep=False).items() if name != "verbose"},
    }
    with _locked(out):
        resumes = not overwrite and _is_unfinished(out)
        if resumes:
            _refuse_another(out, asked)
        else:
            if features.exists() and not (overwrite and is_features(features)):
                raise InputError(f"{features} exists already; choose another --out, or --overwrite to replace features")
            made = {"made_by": _MAKER, **environment(torch.device("cpu"))}
            begun = overwrite or (made_by(out / ENVIRONMENT) == _MAKER and not (out / CONFIG).exists())
            claim_folder(out, ENVIRONMENT, made, {CONFIG, LOG, MODEL, CHECKPOINT, CLASSIFIER}, begun)
            write_bytes(out / CONFIG, json.dumps(asked, indent=1).encode())
        _fit(embedding, given, out, resumes, progress)
        kept = embedding.score(given.vectors)
        _embedded(embedding, given, out).save(features, overwrite=overwrite or resumes)
        if classify and given.labels is not None:
            known = given.labels >= 0
            labelled = given.vectors if known.all() else np.asarray(given.vectors)[known]
            glass_box = NonNegativeClassifier.on(embedding, labelled, given.labels[known])
            glass_box.save_pretrained(out / CLASSIFIER)
        embedding.save_pretrained(out / MODEL, {"neighbours kept of 10": kept})  # last: the run has finished
        _remove_checkpoint(out)
    return Converted(out, features, embedding, kept)


def _name(vectors: str) -> str:
    stem = Path(vectors).name
    for old, new in ((":", "-"), (".npz", ""), (".npy", ""), (".parquet", ""), (".csv", ""), (".safetensors", "")):
        stem = stem.replace(old, new)
    return stem


def _fit(embedding: NonNegativeEmbedding, given: Inputs, out: Path, resumes: bool, progress: bool) -> None:
    fit = embedding.begin(given.vectors, given.labels, pairs=given.pairs)
    if resumes and (state := _checkpoint(out)) is not None:
        fit.resume(state)
    saved, total, losses = time.monotonic(), embedding.max_iter, []
    with progress_bar(progress) as bar:
        task = bar.add_task("fitting", total=total, completed=fit.done)
        while fit.done < total:
            losses.append(fit.step())
            bar.update(task, completed=fit.done)
            if fit.done % _LOG_EVERY == 0 or fit.done == total:
                _log(out, fit, losses)
                losses = []
            if time.monotonic() - saved > _SAVE_EVERY:
                _save(out, fit)
                saved = time.monotonic()
    _save(out, fit)
    embedding.finish(fit)


def _log(out: Path, fit: Fit, losses: list[Tensor]) -> None:
    line = {"step": fit.done, "loss": float(torch.stack(losses).mean())}
    with said_plainly(out / LOG), (out / LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _save(out: Path, fit: Fit) -> None:
    tensors = {name: value.detach().cpu().contiguous() for name, value in fit.state().items()}
    write_bytes(out / CHECKPOINT, save_tensors(tensors))


def _checkpoint(out: Path) -> dict[str, Tensor] | None:
    try:
        with read_plainly(out / CHECKPOINT):
            return load_tensors((out / CHECKPOINT).read_bytes()) if (out / CHECKPOINT).exists() else None
    except SafetensorError:
        Console(stderr=True).print(f"{out / CHECKPOINT} is damaged: starting over", style="yellow")
        return None


def _remove_checkpoint(out: Path) -> None:
    with said_plainly(out):
        for leftover in [out / CHECKPOINT, *out.glob(f"{TEMPORARY_PREFIX}*")]:
            leftover.unlink(missing_ok=True)


def _embedded(embedding: NonNegativeEmbedding, given: Inputs, out: Path) -> Features:
    return Features(
        embedding.transform(given.vectors),
        ids=given.ids,
        labels=given.labels,
        label_names=given.label_names,
        media=given.media,
        texts=given.texts,
        provenance={
            "source": given.described["vectors"]["file"],
            "run": out.name,
            "layer": "projector",
            "report": dataclasses.asdict(embedding.report_),
        },
    )


def _is_unfinished(out: Path) -> bool:
    with read_plainly(out):
        begun = (out / CONFIG).is_file() and made_by(out / ENVIRONMENT) == _MAKER
        return begun and not (out / MODEL / "config.json").is_file()


def _refuse_another(out: Path, asked: dict[str, Any]) -> None:
    """An unfinished run goes on only as it began."""
    with read_plainly(out / CONFIG):
        text = (out / CONFIG).read_bytes()
    try:
        begun = json.loads(text)
    except ValueError as error:
        raise InputError(f"{out / CONFIG} is damaged; pass --overwrite to start over") from error
    asked = json.loads(json.dumps(asked))
    for part in ("embedding", "inputs"):
        was, now = begun.get(part, {}), asked[part]
        for name in now:
            if was.get(name) != now[name]:
                raise InputError(
                    f"{out} holds an unfinished run with {name} {was.get(name)!r}, not {now[name]!r}; go on with the"
                    " same, choose another --out or pass --overwrite to start over"
                )


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """One process at a time; the lock ends with the process, however that ends."""
    with said_plainly(out):
        if out.exists() and not out.is_dir():
            raise InputError(f"{out} is a file, expected a folder for the run")
        out.mkdir(parents=True, exist_ok=True)
        lock = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{out} is being written by another process; wait for it or choose another --out"
            ) from error
        yield
    finally:
        os.close(lock)
