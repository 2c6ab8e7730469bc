"""Work survives kills, and damaged files are detected: short hunts here, long ones among the slow tests.

They run in a process of their own, which forks its victims and must have a single thread.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NONE = {"train": 0, "convert": 0, "index": 0, "save": 0, "export": 0}


def hunted(flips=0, cases=0, options=(), **kills):
    counts = [word for name, count in (NONE | kills).items() for word in (f"--kills-{name}", str(count))]
    command = [sys.executable, "-m", "benchmarks.reliability", *counts, "--flips", str(flips), "--cases", str(cases)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_killed_work_can_be_repeated_with_the_same_result():
    assert "no defect" in hunted(train=2, convert=2, index=4, save=8, export=2)


def test_a_damaged_byte_is_detected_or_harmless():
    assert "no defect" in hunted(flips=40, options=["--quick"])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", ["1", "2"])
def test_many_kills_and_damaged_bytes(seed):
    assert "no defect" in hunted(
        flips=150, train=40, convert=20, index=20, save=20, export=10, options=["--seed", seed]
    )
