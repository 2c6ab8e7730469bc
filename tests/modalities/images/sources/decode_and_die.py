"""Run as a script: decodes a folder in child processes that are killed at random moments, until one finishes."""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from nonneg.modalities.images import open_source


def main(data: str, cache: Path, seconds: float) -> None:
    clock = time.monotonic
    time.monotonic = lambda: 100 * clock()  # progress is saved every second: make that happen often with little data
    rng, killed, resumed, longest = random.Random(0), 0, 0, 0.7 * seconds
    while True:
        child = os.fork()
        if child == 0:
            open_source(data, skip_broken=True, progress=False, cache=cache)
            os._exit(0)
        enough = killed >= 3 and resumed >= 1
        if not enough:
            time.sleep(rng.uniform(0, longest))
            os.kill(child, signal.SIGKILL)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            if enough:
                break
            # The machine was busier when the time was measured: start again, and kill earlier.
            shutil.rmtree(cache)
            longest, killed, resumed = longest / 2, 0, 0
            continue
        killed += 1
        resumed += any(cache.rglob("progress.json"))
        longest *= 1 if resumed else 1.2  # the machine is busier now: no process got far enough to save progress
    print(killed, resumed)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
