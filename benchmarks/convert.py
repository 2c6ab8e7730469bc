"""Speed of `NonNegativeEmbedding` compared with its building blocks and with scikit-learn's factorisations.

    python -m benchmarks.convert
    python -m benchmarks.convert --vectors agnews-minilm.npz:description --labels agnews-minilm.npz:label

Without vectors: `transform` is compared with a matrix product and `torch.topk` of the same size, `fit` with
MiniBatchNMF and MiniBatchDictionaryLearning at 100,000 x 384, and the additional memory of a fit on a memory map
of 1,000,000 x 384 is measured. With vectors: `NonNegativeClassifier` is compared with logistic regression.
"""

import argparse
import statistics
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import MiniBatchDictionaryLearning, MiniBatchNMF
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from benchmarks.hardware import described
from nonneg import NonNegativeClassifier, NonNegativeEmbedding
from nonneg.tables import open_vectors, read_column

WIDTH, FEATURES, ACTIVE = 384, 1536, 32


def seconds(work: Any, repeats: int = 5) -> float:
    """Return the median time of a call."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def once(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def clustered(rows: int, seed: int = 0) -> Any:
    """Return unit vectors around 200 centres."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(200, WIDTH)).astype(np.float32)
    x = centres[rng.integers(200, size=rows)] + 0.7 * rng.standard_normal((rows, WIDTH), np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def transforming() -> None:
    x = clustered(20_000)
    embedding = NonNegativeEmbedding(FEATURES, ACTIVE, max_iter=20, random_state=0).fit(x)
    vectors, weight, bias = torch.from_numpy(x), embedding.head_.weight, embedding.head_.bias

    @torch.inference_mode()
    def bare() -> None:
        for block in vectors.split(4096):
            torch.nn.functional.linear(block, weight, bias).topk(ACTIVE)

    ours, theirs = seconds(lambda: embedding.transform(x)), seconds(bare)
    print(f"transform 20,000 x {WIDTH}: {ours:.3f} s, matrix product and topk {theirs:.3f} s: {ours / theirs:.2f}x")


def fitting(rows: int) -> None:
    x = clustered(rows)
    ours = once(lambda: NonNegativeEmbedding(FEATURES, ACTIVE, random_state=0).fit(x))
    print(f"fit {rows:,} x {WIDTH}, {FEATURES} features: nonneg {ours:.1f} s", flush=True)
    split = np.concatenate((np.maximum(x, 0), np.maximum(-x, 0)), axis=1)
    peers = {
        "MiniBatchNMF, one pass": lambda: MiniBatchNMF(FEATURES, batch_size=1024, max_iter=1).fit(split),
        "MiniBatchDictionaryLearning, 10 batches": lambda: MiniBatchDictionaryLearning(
            FEATURES, batch_size=256, max_iter=1, positive_code=True, fit_algorithm="cd", transform_algorithm="lasso_cd"
        ).fit(x[:2560]),
    }
    for name, work in peers.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            taken = once(work)
        print(f"  {name}: {taken:.1f} s, {taken / ours:.2f}x the time of nonneg", flush=True)


def memory(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        target = np.lib.format.open_memmap(path, "w+", np.float16, (rows, WIDTH))
        for start in range(0, rows, 50_000):
            target[start : start + 50_000] = clustered(min(50_000, rows - start), start)
        target.flush()
        del target
        NonNegativeEmbedding(FEATURES, ACTIVE, max_iter=2, random_state=0).fit(
            clustered(2000)
        )  # allocates torch's own memory
        before, most, done = anonymous(), [0.0], threading.Event()

        def watch() -> None:
            while not done.wait(0.01):
                most.append(anonymous())

        watcher = threading.Thread(target=watch)
        watcher.start()
        NonNegativeEmbedding(FEATURES, ACTIVE, max_iter=50, random_state=0).fit(np.load(path, mmap_mode="r"))
        done.set()
        watcher.join()
        added = max(most) - before
        print(f"fit on a memory map of {rows:,} x {WIDTH}: at most {added:.0f} MB of additional anonymous memory")


def anonymous() -> float:
    """Return the megabytes of memory that are not backed by a file."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def classifying(vectors: str, labels: str) -> None:
    x, y = np.asarray(open_vectors(vectors), np.float32), read_column(labels)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0)).numpy()
    train, test = order[: len(x) * 4 // 5], order[len(x) * 4 // 5 :]
    plain = LogisticRegression(max_iter=1000).fit(x[train], y[train])
    print(f"logistic regression on the raw vectors: {plain.score(x[test], y[test]):.4f}")
    for seed in range(3):
        classifier = NonNegativeClassifier(random_state=seed).fit(x[train], y[train])
        print(f"NonNegativeClassifier, seed {seed}: {classifier.score(x[test], y[test]):.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", help="a file of vectors, for NonNegativeClassifier")
    parser.add_argument("--labels", help="the labels of the vectors")
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    print(described())
    if arguments.vectors:
        classifying(arguments.vectors, arguments.labels)
        return
    transforming()
    memory(10 * arguments.rows)
    fitting(arguments.rows)


if __name__ == "__main__":
    main()
