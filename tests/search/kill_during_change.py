"""A script: kill a process at every step of a build, a save, an addition and a deletion, and open what is left."""

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.search import Index, index_folder, verify

STEPS = {"open", "os.rename", "os.remove", "os.mkdir"}


def version(value: int, rows: int = 40) -> Features:
    dense = np.zeros((rows, 12), np.float32)
    dense[:, value] = value + np.arange(rows)
    return Features(sp.csr_array(dense), ids=[f"{value}-{i}" for i in range(rows)], labels=np.full(rows, value))


def state(folder: Path) -> tuple[int, ...] | None:
    """Return how many rows of each version can be found, consistently; None if there is no index."""
    try:
        index = Index.open(folder)
    except InputError as error:
        assert "does not hold an index" in str(error), error
        return None
    verify(folder)
    counts = []
    for value in range(1, 4):
        found = index.query(np.eye(12)[value], k=1000)
        rows = found.rows[0][found.rows[0] >= 0]
        ids = index.ids(rows)
        assert all(id.startswith(f"{value}-") for id in ids)
        assert [float(id.split("-")[1]) + value for id in ids] == found.scores[0][: len(ids)].tolist()
        assert all(index.label(int(row)) == str(value) for row in rows)
        counts.append(len(ids))
    assert sum(counts) == len(index)
    return tuple(counts)


def change(kind: str, folder: Path, rows: int = 40) -> None:
    if kind == "build":
        index_folder(folder.parent / "two.features", out=folder, cosine=False, overwrite=state(folder) is not None)
        return
    if kind == "save":
        Index.build(version(2, rows), cosine=False).save(folder, overwrite=True)
        return
    index = Index.open(folder)
    if kind == "add":
        more = version(3, rows)
        index.add(more.codes, [more.id(row) for row in range(rows)], more.labels)
    else:
        index.delete([f"1-{i}" for i in range(10)])


def child(kind: str, folder: Path, die_at_step: int | None, rows: int = 40) -> int:
    pid = os.fork()
    if pid == 0:
        count = 0

        def step(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal count
            if event in STEPS and str(folder) in str(arguments[0]):
                count += 1
                if count == die_at_step:
                    os._exit(9)

        sys.addaudithook(step)
        change(kind, folder, rows)
        os._exit(0)
    return pid


def main() -> None:
    root = Path(tempfile.mkdtemp())
    version(2).save(root / "two.features")
    changes = (("build", None), ("save", (40, 0, 0)), ("add", (40, 0, 0)), ("delete", (40, 0, 0)))
    after = {"build": (0, 40, 0), "save": (0, 40, 0), "add": (40, 0, 40), "delete": (30, 0, 0)}
    for kind, old in changes:
        killed = 0
        while True:
            folder = root / f"{kind}-{old is None}-{killed}.index"
            if old is not None:
                Index.build(version(1), cosine=False).save(folder)
            _, status = os.waitpid(child(kind, folder, killed + 1), 0)
            if os.waitstatus_to_exitcode(status) == 0:
                assert state(folder) == after[kind]
                break
            assert state(folder) in (old, after[kind]), (kind, killed, state(folder))
            killed += 1
            change("build", folder)  # the next run takes the folder over
            assert state(folder) == (0, 40, 0)
            index = Index.open(folder)
            assert {path.name for path in folder.iterdir()} == {"meta.json", *index._meta.listed()}
        assert killed >= 6, (kind, killed)
        print(f"killed at each of {killed} steps of {kind} over {old}")

    rng, folder, seen = random.Random(0), root / "random.index", set()
    Index.build(version(1), cosine=False).save(folder)
    start = time.perf_counter()
    os.waitpid(child("add", folder, None, 20_000), 0)
    whole = time.perf_counter() - start
    for _ in range(8):
        Index.build(version(1), cosine=False).save(folder, overwrite=True)
        pid = child("add", folder, None, 20_000)
        time.sleep(rng.uniform(0, 1.3 * whole))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        index = Index.open(folder)
        verify(folder)
        seen.add(len(index))
    assert seen <= {40, 20_040}, seen
    print("killed at 8 random moments")


if __name__ == "__main__":
    main()
