"""The explorer on 100,000 samples x 4,096 features: startup, page times, memory, fifty concurrent clients.

    python -m benchmarks.explore [--seconds 30] [--clients 50]

The server is `nonneg explore` in its own process; times are those of complete requests from another process.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
import scipy.sparse as sp

from benchmarks.hardware import described
from nonneg import Features

SAMPLES, FEATURES, ACTIVE, LABELS = 100_000, 4_096, 32, 100


def synthetic(folder: Path) -> Path:
    """Save codes with 32 active features per sample, half of them features of its class, with labels and texts."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, LABELS, SAMPLES)
    own = labels[:, None] * (FEATURES // LABELS) + generator.integers(0, FEATURES // LABELS, (SAMPLES, ACTIVE // 2))
    others = generator.integers(0, FEATURES, (SAMPLES, ACTIVE // 2))
    columns = np.concatenate([own, others], 1).ravel()
    values = generator.exponential(1, len(columns)).astype(np.float32) + 0.01
    codes = sp.coo_array((values, (np.repeat(np.arange(SAMPLES), ACTIVE), columns)), (SAMPLES, FEATURES)).tocsr()
    words = ["".join(generator.choice(list("aeioubdfgklmnprst"), 6)) for _ in range(1000)]
    others = generator.integers(0, len(words), (SAMPLES, 8))
    texts = [" ".join([words[label], *(words[i] for i in row)]) for label, row in zip(labels, others, strict=True)]
    return Features(codes, labels=labels, texts=texts).save(folder / "synthetic.features")


def started(folder: Path, port: int) -> tuple["subprocess.Popen[bytes]", float]:
    """Start the server; return its process and the seconds until its first response."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "nonneg", "explore", str(folder), "--port", str(port), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while True:
        try:
            httpx.get(f"http://127.0.0.1:{port}/api/sets/0/strip/0", timeout=60).raise_for_status()
            return process, time.perf_counter() - begun
        except httpx.ConnectError:
            if process.poll() is not None or time.perf_counter() - begun > 120:
                raise
            time.sleep(0.02)


def memory(process: "subprocess.Popen[bytes]") -> tuple[float, float]:
    """Return the resident memory in gigabytes, now and at its peak."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1e6 for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return sizes["VmRSS"], sizes["VmHWM"]


def page_times(address: str, path: str, numbers: range) -> tuple[float, float]:
    """Return median and 95th percentile of the time of a page in milliseconds, for sequential requests."""
    with httpx.Client(base_url=address, timeout=60) as client:
        times = []
        for number in numbers:
            begun = time.perf_counter()
            client.get(path.format(number)).raise_for_status()
            times.append(1000 * (time.perf_counter() - begun))
    return float(np.median(times)), float(np.percentile(times, 95))


async def crowd(address: str, clients: int, seconds: float) -> tuple[int, int, float, float]:
    """Run clients without pauses; return requests, errors, median and 95th percentile in milliseconds."""
    times: list[float] = []
    errors = 0

    async def visitor(number: int) -> None:
        nonlocal errors
        generator = np.random.default_rng(number)
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                feature, row = int(generator.integers(FEATURES)), int(generator.integers(SAMPLES))
                choice = int(generator.integers(4))
                paths = (f"strip/{feature}", f"feature/{feature}", f"sample/{row}", f"sample/{row}?off={feature}")
                begun = time.perf_counter()
                try:
                    (await client.get(f"/api/sets/0/{paths[choice]}")).raise_for_status()
                except httpx.HTTPError:
                    errors += 1
                times.append(1000 * (time.perf_counter() - begun))

    await asyncio.gather(*(visitor(number) for number in range(clients)))
    return len(times), errors, float(np.median(times)), float(np.percentile(times, 95))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--port", type=int, default=8791)
    given = parser.parse_args()
    address = f"http://127.0.0.1:{given.port}"
    print(f"{SAMPLES:,} samples x {FEATURES:,} features, {ACTIVE} active; {described()}\n")
    print("| what | figure |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        process, ready = started(synthetic(Path(folder)), given.port)
        try:
            print(f"| startup, from the start of the process | {ready:.1f} s |")
            begun = time.perf_counter()
            httpx.get(f"{address}/api/sets/0/features", timeout=120).raise_for_status()
            print(f"| table of all features, first request | {time.perf_counter() - begun:.1f} s |")
            while not httpx.get(f"{address}/api/overview", timeout=120).json()["sets"][0]["is_settled"]:
                time.sleep(0.5)
            print(f"| words for all features found, after the first request | {time.perf_counter() - begun:.1f} s |")
            for name, path, numbers in (
                ("overview", "/api/overview", range(10)),
                ("table of all features", "/api/sets/0/features", range(10)),
                ("a feature", "/api/sets/0/feature/{}", range(0, 4000, 40)),
                ("a sample", "/api/sets/0/sample/{}", range(0, 100_000, 1000)),
                ("a strip of nine samples", "/api/sets/0/strip/{}", range(0, 4000, 40)),
            ):
                median, most = page_times(address, path, numbers)
                print(f"| {name}: median, 95th percentile | {median:.0f} ms, {most:.0f} ms |")
            requests, errors, median, most = asyncio.run(crowd(address, given.clients, given.seconds))
            print(f"| {given.clients} clients for {given.seconds:g} s: requests, errors | {requests:,}, {errors} |")
            print(f"| their median, 95th percentile | {median:.0f} ms, {most:.0f} ms |")
            now, peak = memory(process)
            print(f"| resident memory at the end, at its peak | {now:.2f} GB, {peak:.2f} GB |")
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
