"""Work survives kills, and damaged files are detected: short hunts here, long ones among the slow tests.

They run in a process of their own, which forks its victims and must have a single thread.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = ("train", "train_pairs", "train_graph", "convert", "convert_shards", "index", "add", "delete", "save", "export")
NONE = dict.fromkeys(KINDS, 0)


def hunted(flips=0, cases=0, options=(), **kills):
    counts = [word for name, count in (NONE | kills).items() for word in (_option(name), str(count))]
    command = [sys.executable, "-m", "benchmarks.reliability", *counts, "--flips", str(flips), "--cases", str(cases)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _option(name):
    return f"--kills-{name.replace('_', '-')}"


def test_a_few_kills_and_damaged_bytes():
    found = hunted(flips=40, train=1, convert=1, index=2, save=4, export=1, options=["--quick"])
    assert found.count("no defect") == 6


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["index", "add", "delete", "save"])
def test_a_kill_before_any_change_leaves_the_old_content_or_the_new(kind):
    assert hunted(**{kind: 1}, options=["--each-change"]).count("no defect") == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", ["1", "2"])
def test_many_kills_and_damaged_bytes(seed):
    counts = {"train": 40, "convert": 20, "index": 20, "add": 10, "delete": 10, "save": 20, "export": 10}
    further = {"train_pairs": 10, "train_graph": 10, "convert_shards": 10}
    found = hunted(flips=150, **counts, **further, options=["--seed", seed])
    assert found.count("no defect") == 11
