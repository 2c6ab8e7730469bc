"""The core works where no extra is installed, and a missing extra is one sentence."""

import subprocess
import sys
from pathlib import Path


def test_the_core_works_without_the_packages_of_extras(tmp_path):
    script = Path(__file__).parent / "core_only.py"
    done = subprocess.run([sys.executable, script, tmp_path, "--block"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    sentences = [line for line in done.stderr.splitlines() if line.startswith("nonneg: ")]
    extras = [line.split("pip install ")[1] for line in sentences]
    assert extras == [f"'nonneg[{extra}]'" for extra in ("page", "page", "search", "search", "train", "train", "plot")]
