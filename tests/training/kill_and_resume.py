"""Run as a script: kills a training run at random moments and restarts it until it is done.

Prints how often it was killed and from which steps it resumed; exits with 1 if the weights differ from those of an
uninterrupted run. Children are forked, so that a kill can fall into any step of such a short run.
"""

import dataclasses
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import lightning_fabric  # noqa: F401  before the fork, so that kills fall into training and not into an import
import torch

import nonneg
from nonneg.training import load_recipe, read_environment, read_log, train

CONFIG = dataclasses.replace(
    load_recipe("digits"), epochs=8, warmup_epochs=1, accelerator="cpu", checkpoint_steps=3, batch_size=128
)


def start(folder: Path) -> int:
    pid = os.fork()
    if pid == 0:
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        train(CONFIG, folder, progress=False)
        os._exit(0)
    return pid


def main(seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        whole, killed = Path(scratch) / "whole", Path(scratch) / "killed"
        began = time.perf_counter()
        os.waitpid(start(whole), 0)
        length = time.perf_counter() - began
        kills = 0
        while not (killed / "model" / "config.json").exists():
            pid = start(killed)
            if kills < 5:
                time.sleep(rng.uniform(0.2, 0.7) * length)
                os.kill(pid, signal.SIGKILL)
                kills += 1
            os.waitpid(pid, 0)
        a, b = (nonneg.load(run).state_dict() for run in (whole, killed))
        same = all(torch.equal(a[name], b[name]) for name in a)
        resumed = [step["step"] for step in read_environment(killed).get("resumed", [])]
        losses = [[(line["epoch"], line["loss"], line["probe"]) for line in read_log(run)] for run in (whole, killed)]
        print(f"{kills} kills, resumed from {resumed}; weights {'the same' if same else 'DIFFER'}", flush=True)
        sys.exit(0 if same and losses[0] == losses[1] and max(resumed) > 0 else 1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
