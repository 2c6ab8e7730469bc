"""Speed of the metrics on sparse codes, compared with plain loops; SEPIN with leaving out one feature at a time.

    python -m benchmarks.metrics

Codes are random, 10,000 x 2,048 with 32 active features per row and 10 classes. Time is the best of several runs;
the loops over queries, and over the 2,048 features of SEPIN, run on a part of them and are scaled up.
"""

import os
import platform
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg import metrics

SAMPLES, FEATURES, ACTIVE, CLASSES, NEIGHBOURS = 10_000, 2_048, 32, 10, 10
LOOPED_QUERIES, LOOPED_FEATURES = 1_000, 7


def codes(samples: int, features: int, active: int, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    columns = np.concatenate([np.sort(rng.choice(features, active, replace=False)) for _ in range(samples)])
    starts = np.arange(samples + 1) * active
    return sp.csr_array((rng.random(len(columns), np.float32) + 0.1, columns, starts), shape=(samples, features))


def unit(z: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.diags_array(1 / np.sqrt(z.multiply(z).sum(1))) @ z)


def looped_consistency(z: sp.csr_array, labels: np.ndarray, permutations: int = 20) -> dict[str, float]:
    """Compute `class_consistency` one feature at a time."""
    active = sp.csc_array(unit(z) > metrics.EPSILON)
    support = np.diff(active.indptr)
    rng = np.random.default_rng(0)
    shares, entropies = np.full((permutations + 1, len(support)), np.nan), np.full(len(support), np.nan)
    for labelling, y in enumerate([labels, *(rng.permutation(labels) for _ in range(permutations))]):
        for feature in np.flatnonzero(support):
            counts = np.bincount(y[active.indices[active.indptr[feature] : active.indptr[feature + 1]]])
            shares[labelling, feature] = counts.max() / support[feature]
            if labelling == 0:
                share = counts[counts > 0] / support[feature]
                entropies[feature] = -(share * np.log(share)).sum()
    supported = support >= 10
    return {
        "value": float(np.nanmean(shares[0])),
        "supported": float(shares[0, supported].mean()),
        "floor": float(shares[1:, supported].mean()),
        "entropy": float(entropies[supported].mean()),
        "purity": float(np.nansum(shares[0] * support) / support.sum()),
    }


def looped_precision(z: sp.csr_array, labels: np.ndarray, queries: int) -> float:
    """Compute precision@10 of the first queries, one at a time."""
    units = unit(z)
    shares = []
    for query in range(queries):
        similarity = units @ units[[query]].toarray()[0]
        similarity[query] = -np.inf
        nearest = np.argpartition(-similarity, NEIGHBOURS)[:NEIGHBOURS]
        shares.append(np.mean(labels[nearest] == labels[query]))
    return float(np.mean(shares))


def naive_sepin(z1: Tensor, z2: Tensor, temperature: float = 0.2, features: int | None = None) -> Tensor:
    """Compute SEPIN of the first features by setting each to zero in turn."""

    def loss(keep: Tensor) -> Tensor:
        logits = F.normalize(z1 * keep, dim=1) @ F.normalize(z2 * keep, dim=1).T / temperature
        return F.cross_entropy(logits, torch.arange(len(z1)))

    with_all = torch.ones(z1.shape[1], dtype=z1.dtype)
    rows = torch.eye(len(with_all), dtype=z1.dtype)[:features]
    return torch.stack([loss(with_all - row) for row in rows]) - loss(with_all)


def seconds(run: Callable[[], object], repeats: int = 5) -> float:
    run()  # compiles and warms up
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def table(title: str, base: float, rows: dict[str, float]) -> None:
    for name, taken in rows.items():
        print(f"| {title} | {name} | {taken:,.4f} | {base / taken:,.1f}x |", flush=True)


def main() -> None:
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"torch {torch.__version__}, {platform.machine()}, {torch.get_num_threads()} threads of {os.cpu_count()}")
    print(f"{name}; {SAMPLES:,} x {FEATURES:,}, {ACTIVE} active, {CLASSES} classes\n")
    print("| | | seconds | speed |\n|---|---|---:|---:|")
    z = codes(SAMPLES, FEATURES, ACTIVE)
    labels = np.random.default_rng(1).integers(CLASSES, size=SAMPLES)
    kinds = {"CSR": z, "dense": torch.from_numpy(z.toarray())}
    if torch.cuda.is_available():
        kinds["dense on the GPU"] = kinds["dense"].cuda()

    expected, found = looped_consistency(z, labels), metrics.class_consistency(z, labels)
    assert all(
        abs(getattr(found, name) - value) < (1e-3 if name == "floor" else 1e-9) for name, value in expected.items()
    )
    loop = seconds(lambda: looped_consistency(z, labels), 3)
    rows = {kind: seconds(lambda x=x: metrics.class_consistency(x, labels), 10) for kind, x in kinds.items()}
    table("class consistency, floor of 20 permutations", loop, {"loop over features": loop, **rows})

    found = float(metrics.precision_at_k(z, labels, NEIGHBOURS, reduce=False)[:LOOPED_QUERIES].mean())
    assert abs(looped_precision(z, labels, LOOPED_QUERIES) - found) < 1e-9
    loop = seconds(lambda: looped_precision(z, labels, LOOPED_QUERIES), 3) * SAMPLES / LOOPED_QUERIES
    rows = {kind: seconds(lambda x=x: metrics.precision_at_k(x, labels, NEIGHBOURS), 3) for kind, x in kinds.items()}
    table("precision@10", loop, {"loop over queries": loop, **rows})
    taken = seconds(lambda: metrics.mean_average_precision(z, labels, NEIGHBOURS), 2)
    print(f"| mAP@10 | CSR | {taken:,.4f} | |")

    for title, active in (("5% active", 13), ("half active", 128), ("all active", 256)):
        x = codes(256, 256, active)
        y = x.copy()
        y.data *= np.random.default_rng(1).random(y.nnz, np.float32)
        z1, z2 = (torch.from_numpy(v.toarray()).double() for v in (x, y))
        loop = seconds(lambda z1=z1, z2=z2: naive_sepin(z1, z2), 3)
        worst = float((metrics.sepin(x, y).per_feature - naive_sepin(z1, z2)).abs().max())
        ours = seconds(lambda x=x, y=y: metrics.sepin(x, y), 3)
        table(f"SEPIN, 256 x 256, {title}", loop, {"naive": loop, f"nonneg, differs by {worst:.0e}": ours})
    x = codes(2_048, 2_048, ACTIVE)
    y = x.copy()
    y.data *= np.random.default_rng(1).random(y.nnz, np.float32)
    z1, z2 = (torch.from_numpy(v.toarray()).double() for v in (x, y))
    loop = seconds(lambda: naive_sepin(z1, z2, features=LOOPED_FEATURES), 2) * 2_048 / (LOOPED_FEATURES + 1)
    rows = {"naive": loop, "CSR": seconds(lambda: metrics.sepin(x, y), 2)}
    if torch.cuda.is_available():
        rows["dense on the GPU"] = seconds(lambda: metrics.sepin(z1.cuda(), z2.cuda()), 1)
    table(f"SEPIN, 2,048 x 2,048, {ACTIVE} active", loop, rows)


if __name__ == "__main__":
    main()
