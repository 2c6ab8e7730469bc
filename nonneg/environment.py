"""What results depend on besides the config: device, versions, commit and command."""

import os
import platform
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

_PACKAGES = ("torch", "lightning-fabric", "numpy", "scikit-learn")


def environment(device: torch.device) -> dict[str, Any]:
    """Describe this machine, this process and this version of nonneg in a form that JSON can hold."""
    program = Path(sys.argv[0]).name
    on_gpu = device.type == "cuda"
    ours = sys.modules["nonneg"].__version__  # an import would point from this low layer to the top one
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else f"{platform.machine()} {device.type}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {"nonneg": ours, **_versions()},
        "commit": _commit(),
        "command": ["nonneg" if program == "__main__.py" else program, *sys.argv[1:]],
    }


def _versions() -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _commit() -> str:
    """Return the commit of the source tree that this package runs from, with "-dirty" if the package has changes."""
    tree = Path(__file__).parents[1]
    if not (tree / ".git").exists():
        return "unknown"

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(tree), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        commit = git("describe", "--always")
        # Changes outside the package do not count: runs write their results into the tree.
        return f"{commit}-dirty" if git("status", "--porcelain", "--", "nonneg") else commit
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
