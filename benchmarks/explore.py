"""The explorer on 100,000 samples x 4,096 features: startup, page times, memory, sixty concurrent clients.

    python -m benchmarks.explore [--seconds 60] [--clients 60]

The server is `nonneg explore` in its own process; times are those of complete requests from another process. The
clients read all kinds of pages, search and try images; two of them write names as well, and no name may be lost.
"""

import argparse
import asyncio
import dataclasses
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import scipy.sparse as sp

from benchmarks.hardware import described
from nonneg import Features, train
from nonneg.features import journal
from nonneg.modalities.images import open_source
from nonneg.training import load_recipe

SAMPLES, FEATURES, ACTIVE, LABELS = 100_000, 4_096, 32, 100
WRITERS = 2


@dataclasses.dataclass(frozen=True)
class Load:
    """What happened under load: the time of each request in milliseconds, errors, and the names that were accepted."""

    times: list[float]
    errors: list[str]
    names: list[str]

    def lost(self, folder: Path) -> list[str]:
        """Return the accepted names that the journal of the features does not hold."""
        return list((Counter(self.names) - Counter(entry.name for entry in journal(folder).history())).elements())


def synthetic(folder: Path) -> Path:
    """Save codes with 32 active features per sample, half of them features of its class, with labels and texts.

    They lie beside a briefly trained run, whose model encodes new images. Returns the run.
    """
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
    Features(codes, labels=labels, texts=texts).save(folder / "synthetic.features")
    config = dataclasses.replace(load_recipe("digits"), epochs=1, warmup_epochs=0, features=FEATURES)
    config = dataclasses.replace(config, rectify="top_k", top_k=ACTIVE)
    return train(config, folder / "synthetic", progress=False)


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


def wait_for_names(address: str) -> None:
    """Wait until names have been suggested for all features."""
    while not httpx.get(f"{address}/api/overview", timeout=120).json()["sets"][0]["is_settled"]:
        time.sleep(0.5)


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


def calls(generator: np.random.Generator, samples: int, features: int, image: bytes) -> list[dict[str, Any]]:
    """Return the arguments of one request of each kind that readers make."""
    feature, row = int(generator.integers(features)), int(generator.integers(samples))
    query = {"features": [{"feature": feature, "weight": 1}], "like": [row]}
    return [
        {"method": "GET", "url": "/api/overview"},
        {"method": "GET", "url": "/api/sets/0/features"},
        {"method": "GET", "url": f"/api/sets/0/strip/{feature}"},
        {"method": "GET", "url": f"/api/sets/0/feature/{feature}"},
        {"method": "GET", "url": f"/api/sets/0/sample/{row}", "params": {"off": feature}},
        {"method": "POST", "url": "/api/sets/0/search", "json": query},
        {"method": "POST", "url": "/api/sets/0/encode", "content": image},
    ]


async def crowd(address: str, clients: int, seconds: float) -> Load:
    """Run clients without pauses against a run of digits. The first two alternate between reading and naming."""
    shown = httpx.get(f"{address}/api/overview", timeout=60).json()["sets"][0]
    image = Features(np.zeros((1, 1)), pixels=open_source("digits", "test").samples[:1]).media(0) or b""
    load, key = Load([], [], []), secrets.token_hex(4)

    async def ask(client: httpx.AsyncClient, **call: Any) -> bool:
        begun = time.perf_counter()
        try:
            (await client.request(**call)).raise_for_status()
        except httpx.HTTPError as error:
            load.errors.append(f"{call['url']}: {error!r}")
            return False
        finally:
            load.times.append(1000 * (time.perf_counter() - begun))
        return True

    async def visitor(number: int) -> None:
        generator = np.random.default_rng(number)
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            until, turn = time.perf_counter() + seconds, 0
            while time.perf_counter() < until:
                turn += 1
                reading = calls(generator, shown["samples"], shown["features"], image)
                await ask(client, **reading[int(generator.integers(len(reading)))])
                name = {"name": f"{key} {turn} of {number}", "author": f"writer {number}"}
                url = f"/api/sets/0/feature/{turn % 5}/name"  # both writers name the same features
                if number < WRITERS and await ask(client, method="PUT", url=url, json=name):
                    load.names.append(name["name"])

    await asyncio.gather(*(visitor(number) for number in range(clients)))
    return load


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=60)
    parser.add_argument("--port", type=int, default=8791)
    given = parser.parse_args()
    address = f"http://127.0.0.1:{given.port}"
    print(f"{SAMPLES:,} samples x {FEATURES:,} features, {ACTIVE} active; {described()}\n")
    print("| what | figure |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        run = synthetic(Path(folder))
        process, ready = started(run, given.port)
        try:
            print(f"| startup, from the start of the process | {ready:.1f} s |")
            begun = time.perf_counter()
            httpx.get(f"{address}/api/sets/0/features", timeout=120).raise_for_status()
            print(f"| table of all features, first request | {time.perf_counter() - begun:.1f} s |")
            wait_for_names(address)
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
            asyncio.run(crowd(address, clients=3, seconds=3))  # loads the model
            before, _ = memory(process)
            load = asyncio.run(crowd(address, given.clients, given.seconds))
            median, most = np.percentile(load.times, [50, 99])
            print(f"| {given.clients} clients for {given.seconds:g} s: requests | {len(load.times):,} |")
            print(f"| of those: errors | {len(load.errors)} |")
            print(f"| of those: median, 99th percentile | {median:.0f} ms, {most:.0f} ms |")
            lost = load.lost(run.with_name(f"{run.name}.features"))
            print(f"| names given by {WRITERS} of them, names lost | {len(load.names):,}, {len(lost)} |")
            now, peak = memory(process)
            print(f"| resident memory before them, afterwards, at most | {before:.2f}, {now:.2f}, {peak:.2f} GB |")
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
