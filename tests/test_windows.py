"""Windows: no fcntl, no fork, folders that cannot be flushed, mapped files that cannot be replaced."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists the files that are mapped")
def test_the_core_works_on_a_system_like_windows(tmp_path):
    script = Path(__file__).parent / "like_windows.py"
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
