"""Run as a script: decodes a folder in a child that is killed at random moments, until one gets through."""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from nonneg.modalities.images import open_source
from nonneg.modalities.images.sources import _build


def main(data: str, cache: Path, seconds: float) -> None:
    _build._SECONDS_BETWEEN_SAVES = 0.01  # so that little data is saved as often as much data is
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
            # The machine was busier while the time was taken: begin again, and kill earlier.
            shutil.rmtree(cache)
            longest, killed, resumed = longest / 2, 0, 0
            continue
        killed += 1
        resumed += any(cache.rglob("progress.json"))
        longest *= 1 if resumed else 1.2  # busier now: nothing has got so far as to be gone on from
    print(killed, resumed)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
