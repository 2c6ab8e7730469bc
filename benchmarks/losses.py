"""InfoNCE, forward and backward: time and peak memory compared with the textbook form and other libraries.

    python -m benchmarks.losses [--device cuda]

Time is the best of several runs, as a ratio to the textbook form in the same run; memory is the
allocator's peak. Libraries that are not installed or cannot be imported are named and skipped.
"""

import argparse
import importlib
import platform
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.memory import peak_bytes
from nonneg import losses
from nonneg.devices import choose_device

Loss = Callable[[Tensor, Tensor], Tensor]
WIDTH, TEMPERATURE, CHUNK = 256, 0.2, 512


def textbook(z1: Tensor, z2: Tensor) -> Tensor:
    z = F.normalize(torch.cat((z1, z2)), dim=1)
    similarity = z @ z.T / TEMPERATURE
    similarity = similarity.masked_fill(torch.eye(len(z), dtype=torch.bool, device=z.device), float("-inf"))
    return F.cross_entropy(similarity, torch.arange(len(z), device=z.device).roll(len(z1)))


def ours(chunk_rows: int | None) -> Loss:
    return lambda z1, z2: losses.info_nce(z1, z2, TEMPERATURE, chunk_rows=chunk_rows)


def lightly() -> Loss:
    return importlib.import_module("lightly.loss").NTXentLoss(temperature=TEMPERATURE)


def pytorch_metric_learning() -> Loss:
    module = importlib.import_module("pytorch_metric_learning.losses")
    loss = module.SelfSupervisedLoss(module.NTXentLoss(temperature=TEMPERATURE))
    return lambda z1, z2: loss(z1, z2)


def contenders() -> dict[str, Loss]:
    found: dict[str, Loss] = {
        "textbook": textbook,
        "nonneg": ours(None),
        f"nonneg, chunks of {CHUNK}": ours(CHUNK),
    }
    for build in (lightly, pytorch_metric_learning):
        try:
            found[build.__name__] = build()
        except Exception as error:  # an import can fail in many ways; skip the library in any case
            print(f"skipped: {build.__name__} ({type(error).__name__}: {str(error).splitlines()[0]})")
    return found


def step(loss: Loss, pairs: int, device: str) -> float:
    generator = torch.Generator(device).manual_seed(0)
    z1, z2 = (torch.randn(pairs, WIDTH, generator=generator, device=device).relu_().requires_grad_() for _ in "12")
    value = loss(z1, z2)
    value.backward()
    return float(value.detach())


def best_seconds(run: Callable[[], object], device: str, repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):  # the first one is a warm-up
        if device != "cpu":
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default=str(choose_device()))
    device = parser.parse_args().device
    name = (
        torch.cuda.get_device_name() if device != "cpu" else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )
    print(f"torch {torch.__version__} on {name}; float32, {WIDTH} features, tau {TEMPERATURE}\n")
    candidates = contenders()
    sizes = (256, 1024, 4096) if device == "cpu" else (256, 1024, 4096, 16_384)
    print("| pairs | | ms | time | peak MiB | memory | value |\n|---:|---|---:|---:|---:|---:|---:|")
    for pairs in sizes:
        base_time = base_memory = 0.0
        for label, loss in candidates.items():
            try:
                value = step(loss, pairs, device)
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if "memory" not in str(error):
                    raise
                print(f"| {pairs:,} | {label} | out of memory | | | | |")
                continue
            seconds = best_seconds(lambda loss=loss, n=pairs: step(loss, n, device), device, 3 if pairs > 2000 else 10)
            memory = peak_bytes(lambda loss=loss, n=pairs: step(loss, n, device), device) / 2**20
            base_time, base_memory = base_time or seconds, base_memory or memory
            ratios = f"{seconds / base_time:.2f}x | {memory:,.0f} | {memory / base_memory:.2f}x"
            print(f"| {pairs:,} | {label} | {seconds * 1e3:,.2f} | {ratios} | {value:.5f} |", flush=True)
    if device != "cpu":
        pairs = 65_536
        run = ours(2048)
        value = step(run, pairs, device)
        memory = peak_bytes(lambda: step(run, pairs, device), device) / 2**30
        seconds = best_seconds(lambda: step(run, pairs, device), device, 1)
        print(f"\n{pairs:,} pairs, nonneg in chunks of 2048: {seconds:.2f} s, peak {memory:.2f} GiB, value {value:.5f}")


if __name__ == "__main__":
    main()
