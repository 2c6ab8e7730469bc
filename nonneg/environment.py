"""What results depend on besides the config: device, versions, commit and command."""

import os
import platform
import subprocess
import sys
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
        "packages": {"nonneg": ours, **{name: _version(name) for name in _PACKAGES}},
        "commit": _commit(),
        "command": ["nonneg" if program == "__main__.py" else program, *sys.argv[1:]],
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


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
