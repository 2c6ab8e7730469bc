"""What is damaged: everything that nonneg writes and reads again."""

import os
import signal
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from PIL import Image
from torch.optim.optimizer import register_optimizer_step_post_hook

import nonneg
from nonneg import convert, features, models, search
from nonneg.codes import dense
from nonneg.convert import NonNegativeClassifier, NonNegativeEmbedding
from nonneg.errors import StoppedError
from nonneg.features import Features, SampleMap, Suggestion, codes_key, read_map, write_map, write_suggestions
from nonneg.modalities.images import open_source
from nonneg.runs import kind_of, read_environment, verify_records
from nonneg.search import Index, Query, index_folder, search_folder
from nonneg.training import load_recipe, train
from tests.hunts.flips import Subject
from tests.hunts.more_victims import Sharding, TrainingGraph, TrainingPairs
from tests.hunts.victims import Conversion, Training, figures, run_result

_ROOMS = {"trained run": models, "model": models, "conversion": convert, "estimator": convert, "index": search}


def verify(folder: Path) -> None:
    """Do what `nonneg verify` does."""
    verify_records(folder)
    _ROOMS.get(kind_of(folder) or "", features).verify(folder)


def some_features(sparse: bool = True) -> Features:
    codes = sp.random_array((60, 12), density=0.3, rng=np.random.default_rng(0), dtype=np.float32).tocsr()
    return Features(
        codes if sparse else codes.toarray(),
        ids=[f"id {row}" for row in range(60)],
        texts=[f"text {row}" for row in range(60)],
        pixels=np.arange(60 * 4, dtype=np.uint8).reshape(60, 2, 2, 1),
        labels=np.arange(60) % 3,
        label_names=("ant", "bee", "cat"),
        names={1: "one", 4: "four"},
        provenance={"source": "drawn"},
    )


def content(found: Features) -> Any:
    """Everything that features hold."""
    samples = [(found.id(row), found.text(row), found.media(row)) for row in range(len(found))]
    labels = None if found.labels is None else found.labels.tolist()
    return dense(found.codes).tobytes(), samples, labels, found.label_names, dict(found.names), found.provenance


def _features(name: str, sparse: bool) -> Subject:
    return Subject(
        name,
        lambda place: some_features(sparse).save(place / "x.features"),
        lambda place: content(Features.load(place / "x.features")),
        lambda place: verify(place / "x.features"),
    )


def _stopped_training(place: Path) -> None:
    """Train and stop after 16 steps, with checkpoints of steps 15 and 16."""
    done = 0

    def count(*_: Any) -> None:
        nonlocal done
        done += 1
        if done == 16:
            os.kill(os.getpid(), signal.SIGTERM)

    register_optimizer_step_post_hook(count)
    try:
        train(Training.config, place / "run", progress=False)
    except StoppedError:
        return
    raise AssertionError("the run was not stopped")


def _resumed_training(place: Path) -> Any:
    train(Training.config, place / "run", progress=False)
    return {name: found for name, found in run_result(place).items() if "checkpoints/" not in name}


def _trained(place: Path) -> Any:
    run, digits = place / "run", open_source("digits", "test")
    codes = nonneg.load(run).embed(digits.take(np.arange(50)))
    return content(codes), load_recipe(str(run / "config.toml")), figures(run), read_environment(run)


class _Interrupted(NonNegativeEmbedding):
    """A fit that ends after 70 of its steps."""

    def begin(self, *given: Any, **options: Any) -> Any:
        fit = super().begin(*given, **options)
        step = fit.step

        def interrupted_step() -> Any:
            if fit.done == 70:
                raise KeyboardInterrupt
            return step()

        fit.step = interrupted_step
        return fit


def _stopped_conversion(place: Path) -> None:
    now = time.monotonic
    time.monotonic = lambda: 1e6 * now()  # a checkpoint after every step
    given = Conversion(place)
    embedding = _Interrupted(**given.parameters)
    try:
        convert.convert_file(
            str(given.vectors),
            place / "run",
            labels=str(given.labels),
            embedding=embedding,
            classify=True,
            progress=False,
        )
    except KeyboardInterrupt:
        return
    raise AssertionError("the run was not interrupted")


def _resumed_conversion(place: Path) -> Any:
    Conversion(place).work(place)
    return run_result(place)


def _converted(place: Path) -> Any:
    run, vectors = place / "run", np.load(place / "x.npy")
    codes = NonNegativeEmbedding.from_pretrained(run).transform(vectors)
    classifier = NonNegativeClassifier.from_pretrained(run / "classifier")
    predicted = classifier.predict_proba(vectors).tobytes(), classifier.predict(vectors).tolist()
    return codes.toarray().tobytes(), predicted, figures(run), read_environment(run)


def _index(place: Path, **settings: Any) -> None:
    folder = index_folder(some_features().save(place / "x.features"), out=place / "x.index", **settings)
    if settings.get("engine", "exact") == "exact":
        with Index.open(folder) as index:
            index.delete(["id 7"])
            index.add(np.eye(12)[:2], ids=["new 1", "new 2"], labels=[0, 1])


def _hits(place: Path) -> Any:
    with Index.open(place / "x.index") as index:
        found = index.query(some_features().codes[:20], k=12)
        ids = [index.ids(rows) for rows in found.rows]
        labels = [[index.label(int(row)) for row in rows if row >= 0] for rows in found.rows]
        reasons = index.contributions(np.ones(12), [0, 3, 5])
        return ids, labels, found.scores.tobytes(), [list(map(asdict, each)) for each in reasons]


def _indexed(name: str, **settings: Any) -> Subject:
    return Subject(
        name, lambda place: _index(place, **settings), _hits, lambda place: verify(place / "x.index"), "x.index/*"
    )


def _saved_query(place: Path) -> None:
    some_features().save(place / "x.features")
    Query(like=("id 3",), features=((4, 0.5), ("one", 0.25)), without=(7,), label="bee", k=5).save(place / "query.json")


def _found(place: Path) -> Any:
    found = search_folder(place / "x.features", Query.load(place / "query.json"))
    return found.to_dict()


def _pictures(place: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(12):
        folder = place / "images" / ("cat" if number % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    _opened(place)


def _opened(place: Path) -> Any:
    source = open_source(place / "images", cache=place / "cache", progress=False)
    labels = None if source.labels is None else source.labels.tolist()
    return np.asarray(source.samples).tobytes(), source.ids, labels, source.label_names, source.skipped, source.name


def _suggested(place: Path) -> None:
    folder = some_features().save(place / "x.features")
    key = codes_key(Features.load(folder))
    write_suggestions(folder, key, {2: Suggestion("two, words", 0.75, 12), 5: Suggestion("five", None, 3)})
    write_map(folder, key, SampleMap("drawn", np.random.default_rng(0).random((60, 2), np.float32)))


def _read_suggested(place: Path) -> Any:
    found = Features.load(place / "x.features")
    places = read_map(place / "x.features", codes_key(found), 60)
    return dict(found.suggestions), None if places is None else (places.method, places.positions.tobytes())


def _trained_on(kind: type[TrainingPairs] | type[TrainingGraph]) -> Subject:
    """A finished run of pairs or of a graph, whose data lies beside it."""

    def use(place: Path) -> Any:
        run = place / "run"
        codes = nonneg.load(run).embed(
            str(kind(place).data / "table.csv" if kind is TrainingPairs else kind(place).data)
        )
        return content(codes), load_recipe(str(run / "config.toml")), figures(run), read_environment(run)

    return Subject(
        f"{kind.name.removeprefix('train ')} run",
        lambda place: train(kind(place).config, place / "run", progress=False),
        use,
        lambda place: verify(place / "run"),
        "run/**/*",
        is_quick=False,
    )


def subjects() -> list[Subject]:
    """Return all subjects."""
    return [
        _features("sparse features", sparse=True),
        _features("dense features", sparse=False),
        Subject(
            "suggested names and map",
            _suggested,
            _read_suggested,
            lambda place: verify(place / "x.features"),
            "x.features/[ms][au][pg]*.json",
        ),
        Subject(
            "features in parts",
            lambda place: Sharding(place).work(place),
            lambda place: content(Features.load(place / "x.features")),
            lambda place: verify(place / "x.features"),
            "x.features/*",
            is_quick=False,
        ),
        _trained_on(TrainingPairs),
        _trained_on(TrainingGraph),
        Subject(
            "unfinished training run",
            _stopped_training,
            _resumed_training,
            lambda place: verify(place / "run"),
            is_quick=False,
        ),
        Subject(
            "trained run",
            lambda place: train(Training.config, place / "run", progress=False),
            _trained,
            lambda place: verify(place / "run"),
            is_quick=False,
        ),
        Subject(
            "unfinished conversion",
            _stopped_conversion,
            _resumed_conversion,
            lambda place: verify(place / "run"),
            "run/**/*",
            is_quick=False,
        ),
        Subject(
            "conversion",
            lambda place: Conversion(place).work(place),
            _converted,
            lambda place: verify(place / "run"),
            "run/**/*",
            is_quick=False,
        ),
        _indexed("exact index"),
        _indexed("quantised index", quantised=True),
        _indexed("seismic index", engine="seismic"),
        Subject("saved query", _saved_query, _found, lambda place: None, "query.json"),
        Subject("image cache", _pictures, _opened, lambda place: None, "cache/**/*"),
    ]
