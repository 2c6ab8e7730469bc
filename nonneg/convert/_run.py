"""`nonneg convert`: vectors in a file to a run and its features, surviving a kill."""

import dataclasses
import json
import time
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
from nonneg.convert._parameters import checked_config, device_of, memory_errors_as_input_errors
from nonneg.durable import (
    TEMPORARY_PREFIX,
    check_claimable,
    claim_folder,
    folder_lock,
    made_by,
    os_errors_as_input_errors,
    read_errors_as_input_errors,
    write_atomically,
)
from nonneg.environment import environment
from nonneg.errors import InputError
from nonneg.features import Features, is_features
from nonneg.progress import progress_bar

CONFIG, LOG, ENVIRONMENT, MODEL, CHECKPOINT = "config.json", "log.jsonl", "environment.json", "model", "checkpoint"
CLASSIFIER = "classifier"
_MAKER, _HOLDS = "nonneg convert", {CONFIG, LOG, MODEL, CHECKPOINT, CLASSIFIER}
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
        overwrite: replace an earlier run and its features. Nothing is removed before all of the above has been
            checked; then the earlier run is, and its features once the new ones are there.
        progress: show bars on standard error.
    """
    embedding = embedding or NonNegativeEmbedding(random_state=0)
    config = checked_config(embedding.get_params(), 0)
    device_of(embedding.device)
    out = _named(Path("runs") / _name(vectors) if out is None else out)
    for name, is_set in (("supervised", embedding.supervised), ("classify", classify)):
        if is_set and labels is None:
            raise InputError(f"{name} is set without labels, expected one label a row")
    given = open_inputs(vectors, pairs, labels, ids, texts, media, progress)
    if classify and given.labels is not None and len(np.unique(given.labels[given.labels >= 0])) < 2:
        raise InputError(f"{labels} names one class, expected two or more to classify")
    features = out.with_name(f"{out.name}.features")
    parameters = {name: value for name, value in embedding.get_params(deep=False).items() if name != "verbose"}
    asked = json.dumps({"inputs": given.described, "embedding": parameters}, indent=1)
    with folder_lock(out), memory_errors_as_input_errors(config):
        resumes = not overwrite and _is_unfinished(out)
        if resumes:
            _refuse_another(out, json.loads(asked))
        else:
            if _is_taken(features, overwrite):
                raise InputError(f"{features} exists already; choose another --out, or --overwrite to replace features")
            begun = overwrite or (made_by(out / ENVIRONMENT) == _MAKER and not (out / CONFIG).exists())
            check_claimable(out, ENVIRONMENT, _MAKER, _HOLDS, begun)
        fit = embedding.begin(given.vectors, given.labels, pairs=given.pairs)  # the last that can be refused
        if not resumes:
            claim_folder(out, ENVIRONMENT, {"made_by": _MAKER, **environment(torch.device("cpu"))}, _HOLDS, begun)
            write_atomically(out / CONFIG, asked.encode())
        elif (state := _checkpoint(out)) is not None:
            fit.resume(state)
        _fit(fit, embedding.max_iter, out, progress)
        embedding.finish(fit)
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


def _named(out: Path) -> Path:
    """Features get the run's name, so it must have one."""
    if out.name in ("", ".."):
        raise InputError(f"out is {str(out)!r}, expected a folder with a name, such as runs/news")
    return out


def _name(vectors: str) -> str:
    stem = Path(vectors).name
    for old, new in ((":", "-"), (".npz", ""), (".npy", ""), (".parquet", ""), (".csv", ""), (".safetensors", "")):
        stem = stem.replace(old, new)
    return stem


def _fit(fit: Fit, total: int, out: Path, progress: bool) -> None:
    saved, losses = time.monotonic(), []
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


def _log(out: Path, fit: Fit, losses: list[Tensor]) -> None:
    line = {"step": fit.done, "loss": float(torch.stack(losses).mean())}
    with os_errors_as_input_errors(out / LOG), (out / LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _save(out: Path, fit: Fit) -> None:
    tensors = {name: value.detach().cpu().contiguous() for name, value in fit.state().items()}
    write_atomically(out / CHECKPOINT, save_tensors(tensors))


def _checkpoint(out: Path) -> dict[str, Tensor] | None:
    try:
        with read_errors_as_input_errors(out / CHECKPOINT):
            return load_tensors((out / CHECKPOINT).read_bytes()) if (out / CHECKPOINT).exists() else None
    except SafetensorError:
        Console(stderr=True).print(f"{out / CHECKPOINT} is damaged: starting over", style="yellow")
        return None


def _remove_checkpoint(out: Path) -> None:
    with os_errors_as_input_errors(out):
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
    with read_errors_as_input_errors(out):
        begun = (out / CONFIG).is_file() and made_by(out / ENVIRONMENT) == _MAKER
        return begun and not (out / MODEL / "config.json").is_file()


def _refuse_another(out: Path, asked: dict[str, Any]) -> None:
    """An unfinished run goes on only as it began."""
    with read_errors_as_input_errors(out / CONFIG):
        text = (out / CONFIG).read_bytes()
    try:
        begun = json.loads(text)
    except ValueError as error:
        raise InputError(f"{out / CONFIG} is damaged; pass --overwrite to start over") from error
    for part in ("embedding", "inputs"):
        was, now = begun.get(part, {}), asked[part]
        for name in now:
            if was.get(name) != now[name]:
                raise InputError(
                    f"{out} holds an unfinished run {_difference(name, was.get(name), now[name])}; go on with the"
                    " same, choose another --out or pass --overwrite to start over"
                )


def _difference(name: str, was: Any, now: Any) -> str:
    """What was another, in words; a file by its name, which is all that a person knows of it."""
    before, after = (value["file"] if isinstance(value, dict) else value for value in (was, now))
    if isinstance(now, dict) and was is None:
        return f"without {name}, not with {after}"
    if isinstance(was, dict):
        changed = f"not {after}" if after is not None else "not without"
        return f"with {name} {before}, {changed if before != after else 'which has changed since'}"
    return f"with {'seed' if name == 'random_state' else name} {before}, not {after}"


def _is_taken(features: Path, overwrite: bool) -> bool:
    """Whether something is there that features must not replace; a save that was stopped may leave hidden files."""
    with read_errors_as_input_errors(features):
        if not features.exists() or (features.is_dir() and all(p.name.startswith(".") for p in features.iterdir())):
            return False
    return not (overwrite and is_features(features))
