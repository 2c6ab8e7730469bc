"""Run as a script: decodes a folder in a child that is killed at random moments, until one gets through."""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from nonneg.data import _build, open_source


def main(data: str, cache: Path, seconds: float) -> None:
    _build._SECONDS_BETWEEN_SAVES = 0.01  # so that little data is saved as often as much data is
    rng, killed, resumed = random.Random(0), 0, 0
    while True:
        child = os.fork()
        if child == 0:
            open_source(data, skip_broken=True, progress=False, cache=cache)
            os._exit(0)
        if killed < 8:
            time.sleep(rng.uniform(0, 0.7 * seconds))
            os.kill(child, signal.SIGKILL)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            if killed >= 3:
                break
            # Too soon: the machine was busy while the time was taken. Begin again, and kill earlier.
            shutil.rmtree(cache)
            seconds, killed, resumed = seconds / 2, 0, 0
            continue
        killed += 1
        resumed += any(cache.rglob("progress.json"))
    print(killed, resumed)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
