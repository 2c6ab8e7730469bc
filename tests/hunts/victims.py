"""The work that is killed: training, conversion, indexing, saving features and exporting pages."""

import dataclasses
import hashlib
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from nonneg import explorer, features, search
from nonneg.convert import NonNegativeEmbedding, convert_file
from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.training import load_recipe, read_log, train

TIMES = ("seconds", "views_per_second")
OLD, NEW = 1, 2


def tree(folder: Path, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Return a hash of each file by its relative path."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items() if path.name not in without
    }


def site(place: Path) -> dict[str, Any]:
    """Return the files of an exported site."""
    return {name: digest for name, digest in tree(place).items() if ".nonneg-tmp-" not in name}


def run_result(place: Path) -> dict[str, Any]:
    """Return everything in a place with a run, except for times and environments."""
    log = [{name: line[name] for name in line if name not in TIMES} for line in figures(place / "run")]
    return {**tree(place, without=("log.jsonl", "environment.json")), "log.jsonl": log}


def figures(run: Path) -> list[dict[str, float]]:
    """Return the numbers in a run's log."""
    return [{name: value for name, value in line.items() if not isinstance(value, str)} for line in read_log(run)]


class Training:
    name = "train"
    config = dataclasses.replace(
        load_recipe("digits"), epochs=4, warmup_epochs=1, accelerator="cpu", checkpoint_steps=3, batch_size=128
    )

    def prepare(self, place: Path, trial: int) -> None:
        pass

    def work(self, place: Path) -> None:
        if self.examine(place) != "finished":
            train(self.config, place / "run", progress=False)

    def examine(self, place: Path) -> str:
        return run_state(place / "run")

    def result(self, place: Path) -> dict[str, Any]:
        return run_result(place)


def run_state(run: Path) -> str:
    if (run / "model" / "config.json").exists():
        return "finished"
    return "unfinished" if run.exists() else "nothing"


class Conversion:
    """A conversion whose clock is 200 times as fast, so that there is a checkpoint every 25 milliseconds."""

    name = "convert"
    parameters: ClassVar[dict[str, Any]] = {
        "n_components": 32,
        "max_active": 4,
        "max_iter": 150,
        "random_state": 0,
        "device": "cpu",
    }

    def __init__(self, root: Path) -> None:
        rng = np.random.default_rng(0)
        self.vectors, self.labels = root / "x.npy", root / "labels.txt"
        if self.vectors.exists():  # their time of change is part of a run's config
            return
        classes = np.arange(400) % 4
        centres = rng.normal(size=(4, 12))
        np.save(self.vectors, (centres[classes] + 0.3 * rng.normal(size=(400, 12))).astype(np.float32))
        self.labels.write_text("".join(f"class {label}\n" for label in classes))

    def prepare(self, place: Path, trial: int) -> None:
        pass

    def work(self, place: Path) -> None:
        if self.examine(place) == "finished":
            return
        now = time.monotonic
        time.monotonic = lambda: 200 * now()
        convert_file(
            str(self.vectors),
            place / "run",
            labels=str(self.labels),
            classify=True,
            embedding=NonNegativeEmbedding(**self.parameters),
            progress=False,
        )

    def examine(self, place: Path) -> str:
        return run_state(place / "run")

    def result(self, place: Path) -> dict[str, Any]:
        return run_result(place)


def version(value: int, rows: int = 3000) -> Features:
    """Features whose every part tells which version it belongs to."""
    dense = np.zeros((rows, 40), np.float32)
    dense[:, value] = value + 1 + np.arange(rows)
    return Features(
        sp.csr_array(dense),
        ids=[f"{value}-{row}" for row in range(rows)],
        labels=np.full(rows, value),
        pixels=np.full((rows, 4, 4, 1), value, np.uint8),
        names={value: f"version {value}"},
        provenance={"version": value},
    )


def is_version(found: Features, value: int) -> bool:
    """Whether all parts are those of a version."""
    rows = range(0, len(found), 100)
    return (
        found.provenance == {"version": value}
        and dict(found.names) == {value: f"version {value}"}
        and found.labels is not None
        and set(found.labels) == {value}
        and set(found.pixels.ravel()) == {value}
        and [found.id(row) for row in rows] == [f"{value}-{row}" for row in rows]
        and found.column(value)[1].tolist() == [value + 1 + row for row in range(len(found))]
    )


class Saving:
    """`Features.save`: into a new folder and over old features in turn."""

    name = "Features.save"

    def __init__(self) -> None:
        self.versions = {value: version(value) for value in (OLD, NEW)}

    def prepare(self, place: Path, trial: int) -> None:
        if trial % 2:
            self.versions[OLD].save(place / "x.features")

    def work(self, place: Path) -> None:
        folder = place / "x.features"
        self.versions[NEW].save(folder, overwrite=(folder / "meta.json").exists())

    def examine(self, place: Path) -> str:
        try:
            found = features.verify(place / "x.features")
        except InputError as error:
            assert "does not hold features" in str(error), error
            return "nothing"
        value = found.provenance["version"]
        assert is_version(found, value), f"version {value} is mixed with another"
        return "old" if value == OLD else "new"

    def result(self, place: Path) -> dict[str, Any]:
        assert self.examine(place) == "new"
        return tree(place, without=("names.jsonl",))  # it holds times, and lines about the old codes


class Indexing:
    """`nonneg index`: a first index and the replacement of an old one in turn."""

    name = "index"

    def __init__(self, root: Path) -> None:
        self.root = root
        for value in (OLD, NEW):
            version(value).save(root / f"{value}.features", overwrite=True)
        # Compiled here once, and not in every child.
        search.Index.build(version(OLD), cosine=False).query(np.eye(40)[OLD])

    def prepare(self, place: Path, trial: int) -> None:
        if trial % 2:
            search.index_folder(self.root / f"{OLD}.features", out=place / "x.index", cosine=False)

    def work(self, place: Path) -> None:
        out = place / "x.index"
        source = self.root / f"{NEW}.features"
        search.index_folder(source, out=out, cosine=False, overwrite=(out / "meta.json").exists())

    def examine(self, place: Path) -> str:
        try:
            search.verify(place / "x.index")
        except InputError as error:
            assert "does not hold an index" in str(error), error
            return "nothing"
        return {(3000, 0): "old", (0, 3000): "new"}[_rows_found(place / "x.index")]

    def result(self, place: Path) -> dict[str, Any]:
        assert self.examine(place) == "new"
        return tree(place)


def _rows_found(folder: Path) -> tuple[int, ...]:
    """Return how many rows of each version queries find, all with their own ids, labels and scores."""
    counts = []
    with search.Index.open(folder) as index:
        for value in (OLD, NEW):
            found = index.query(np.eye(40)[value], k=len(index))
            rows = found.rows[0][found.rows[0] >= 0]
            versions, numbers = zip(*(id.split("-") for id in index.ids(rows)), strict=True) if len(rows) else ((), ())
            assert {*versions, *(index.label(int(row)) for row in rows)} <= {str(value)}
            assert [value + 1.0 + int(number) for number in numbers] == found.scores[0][: len(rows)].tolist()
            counts.append(len(rows))
        assert sum(counts) == len(index)
    return tuple(counts)


class Changing(Indexing):
    """`Index.add` or `Index.delete`; then the index is replaced."""

    def __init__(self, root: Path, name: str) -> None:
        super().__init__(root)
        self.name, self.new = name, version(NEW)

    def prepare(self, place: Path, trial: int) -> None:
        super().prepare(place, 1)

    def work(self, place: Path) -> None:
        if self.examine(place) == "new":
            return
        with search.Index.open(place / "x.index") as index:
            if self.name == "Index.add":
                index.add(self.new.codes, [self.new.id(row) for row in range(3000)], self.new.labels)
            else:
                index.delete([f"{OLD}-{row}" for row in range(1000)])

    def examine(self, place: Path) -> str:
        search.verify(place / "x.index")
        changed = (3000, 3000) if self.name == "Index.add" else (2000, 0)
        return {(3000, 0): "old", changed: "new"}[_rows_found(place / "x.index")]

    def result(self, place: Path) -> dict[str, Any]:
        assert self.examine(place) == "new"
        super().work(place)
        return tree(place)


class Exporting:
    """`nonneg export`: a first copy and the replacement of an old one in turn."""

    name = "export"

    def __init__(self, root: Path) -> None:
        self.given = {value: version(value, rows=30).save(root / f"export-{value}.features") for value in (OLD, NEW)}
        self.old: dict[str, Any] = {}

    def prepare(self, place: Path, trial: int) -> None:
        if trial % 2:
            self._export(place, OLD, overwrite=False)
            self.old = self.old or site(place)

    def work(self, place: Path) -> None:
        self._export(place, NEW, overwrite=(place / "site" / "index.html").exists())

    def _export(self, place: Path, value: int, overwrite: bool) -> None:
        given = self.given[value]
        explorer.export(given, out=place / "site", features=10, samples=10, overwrite=overwrite, progress=False)

    def examine(self, place: Path) -> str:
        if not (place / "site" / "index.html").exists():  # written last; the next run replaces the rest
            return "incomplete" if (place / "site" / "export.json").exists() else "nothing"
        return "old" if site(place) == self.old else "new"  # `result` compares the new copy

    def result(self, place: Path) -> dict[str, Any]:
        assert self.examine(place) == "new"
        return site(place)
