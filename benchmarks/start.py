"""Seconds from entering `nonneg train` to step 100, by what is compiled, without and with what earlier runs compiled.

    python -m benchmarks.start --data cifar10.npz                    # on a CUDA device: the recipe `cifar10`
    python -m benchmarks.start --data cifar10.npz --paths record graph auto --epochs 20

A checkpoint at step 100 tells when that step is done; writing it counts. The first run of each path begins with empty
caches of the compiler, the second one with what the first has left there. Only the very first command also reads
Python's packages from disk.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.hardware import described
from nonneg.training import read_log

STEPS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--recipe", default="cifar10")
    parser.add_argument("--paths", nargs="+", default=["record", "graph"], help="values of compile")
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    print("| compile | caches | seconds to step 100 | seconds of the whole command | views/s, median after epoch 1 |")
    print("|---|---|---:|---:|---:|", flush=True)
    for path in args.paths:
        with tempfile.TemporaryDirectory() as folder:
            for caches in ("empty", "filled"):
                reached, whole, speed = started(args, path, Path(folder), caches)
                print(f"| {path} | {caches} | {reached:.1f} | {whole:.1f} | {speed:,.0f} |", flush=True)
    print(described())


def started(args: argparse.Namespace, path: str, folder: Path, run: str) -> tuple[float, float, float]:
    """Run the command; return the seconds to step 100 and to its end, and views per second after the first epoch."""
    out = folder / run
    caches = {f"{name}_CACHE_DIR": str(folder / name) for name in ("TORCHINDUCTOR", "TRITON")}
    command = [sys.executable, "-m", "nonneg", "train", args.recipe, "--data", args.data, "--out", str(out)]
    command += ["--compile", path, "--epochs", str(args.epochs), "--warmup-epochs", "0"]
    begun = time.perf_counter()
    with subprocess.Popen([*command, "--checkpoint-steps", str(STEPS)], env={**os.environ, **caches}) as process:
        while process.poll() is None and not any((out / "checkpoints").glob("*.safetensors")):
            time.sleep(0.01)
        reached = time.perf_counter() - begun
    if process.returncode:
        raise SystemExit(process.returncode)
    speeds = [line["views_per_second"] for line in read_log(out)[1:]]
    return reached, time.perf_counter() - begun, statistics.median(speeds) if speeds else float("nan")


if __name__ == "__main__":
    main()
