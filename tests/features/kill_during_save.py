"""Run as a script: kill a process at every step of a save and at random moments, then open the folder."""

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
from nonneg.features import Features, verify

STEPS = {"open", "os.rename", "os.remove", "os.mkdir"}


def version(value: int, rows: int = 50) -> Features:
    dense = np.zeros((rows, 40), np.float32)
    dense[:, value] = value + 1
    return Features(
        sp.csr_array(dense),
        ids=[f"{value}-{i}" for i in range(rows)],
        labels=np.full(rows, value),
        pixels=np.full((rows, 2, 2, 1), value, np.uint8),
        names={value: f"version {value}"},
        provenance={"version": value},
    )


def found(folder: Path) -> int | None:
    """Return the version in the folder, after checking that it is complete; None if there is none."""
    try:
        features = verify(folder)
    except InputError as error:
        assert "does not hold features" in str(error), error
        return None
    value = features.provenance["version"]
    assert features.labels is not None
    assert set(features.labels) == {value}
    assert set(features.pixels.ravel()) == {value}
    assert features.id(3) == f"{value}-3"
    assert dict(features.names) == {value: f"version {value}"}
    assert features.column(value)[1].tolist() == [value + 1] * len(features)
    return int(value)


def child(folder: Path, features: Features, die_at_step: int | None) -> int:
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
        features.save(folder, overwrite=True)
        os._exit(0)
    return pid


def main() -> None:
    root = Path(tempfile.mkdtemp())
    for before in (None, 1):  # into a new folder and over old features
        killed, died_at = 0, 0
        while True:
            died_at += 1
            folder = root / f"{before}-{died_at}.features"
            if before is not None:
                version(before).save(folder)
            _, status = os.waitpid(child(folder, version(2), died_at), 0)
            state = found(folder)
            if os.waitstatus_to_exitcode(status) == 0:
                assert state == 2
                break
            assert state in (before, 2)
            killed += 1
            version(3).save(folder, overwrite=True)  # the folder can be saved into again
            assert found(folder) == 3
            assert not [p for p in folder.iterdir() if p.name.startswith(".nonneg-tmp-")]
        assert killed >= 10, killed
        print(f"killed at each of {killed} steps of a save over {before}")

    rng, folder, seen = random.Random(0), root / "random.features", set()
    versions = {value: version(value, rows=50_000) for value in (1, 2)}
    versions[1].save(folder)
    start = time.perf_counter()
    os.waitpid(child(folder, versions[2], None), 0)
    whole_save = time.perf_counter() - start
    for _ in range(25):
        pid = child(folder, versions[rng.choice([1, 2])], None)
        time.sleep(rng.uniform(0, 1.3 * whole_save))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        seen.add(found(folder))
    assert seen == {1, 2}, seen
    print("killed at 25 random moments")


if __name__ == "__main__":
    main()
