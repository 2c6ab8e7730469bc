"""Search: the exact engine compared with SciPy, Seismic, and faiss on dense vectors; sizes, and scaling.

    python -m benchmarks.search --vectors agnews-minilm.npz:description --labels agnews-minilm.npz:label

Synthetic codes: 100,000 x 4,096 with 32 active; the frequency of a feature falls as rank^-0.6, so that the most common
one is active on 38% of the rows, as in AG News. Queries are drawn like rows. Hits: the 10 best. Times: best of seven.
Real codes: AG News, converted by an embedding fitted on 6,000 rows; the other rows are the queries.
"""

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import scipy.sparse as sp

from benchmarks.hardware import described
from nonneg import Features, NonNegativeEmbedding
from nonneg.search import Found, Index
from nonneg.search._scoring import cores
from nonneg.tables import open_vectors, read_column

FEATURES, ACTIVE, BEST, BATCH = 4_096, 32, 10, 256
GROWTH = (10_000, 30_000, 100_000, 300_000, 1_000_000)
SEISMIC = [(factor, features) for features in (8, 12, 16, 32) for factor in (0.9, 0.8, 0.7)]


def drawn(rows: int, seed: int = 0) -> sp.csr_array:
    """Return unit codes; 64 features are drawn per row, and the first 32 distinct ones are kept."""
    rng = np.random.default_rng(seed)
    bounds = np.cumsum(1 / np.arange(1, FEATURES + 1) ** 0.6)
    parts = []
    for start in range(0, rows, 20_000):
        here = min(20_000, rows - start)
        draws = np.searchsorted(bounds / bounds[-1], rng.random((here, 2 * ACTIVE)))
        order = np.argsort(draws, axis=1, kind="stable")
        ordered = np.take_along_axis(draws, order, axis=1)
        is_first = np.ones(draws.shape, bool)
        is_first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        is_new = np.empty_like(is_first)
        np.put_along_axis(is_new, order, is_first, axis=1)
        row, place = np.nonzero(is_new & (np.cumsum(is_new, axis=1) <= ACTIVE))
        values = rng.gamma(2.0, size=len(row))
        lengths = np.sqrt(np.bincount(row, values**2, here))
        block = ((values / lengths[row]).astype(np.float32), (row, draws[row, place]))
        parts.append(sp.csr_array(block, shape=(here, FEATURES)))
    codes = sp.csr_array(sp.vstack(parts))
    codes.sort_indices()
    return codes


def seconds(work: Callable[[], object], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def best_of(scores: Any) -> Any:
    """Return the ten best of each row of scores, in order: a matrix product alone is not a search."""
    chosen = np.argpartition(-scores, BEST, axis=-1)[..., :BEST]
    order = np.argsort(-np.take_along_axis(scores, chosen, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(chosen, order, axis=-1)


def recall(found: Found, wanted: Found) -> float:
    shared = [len(set(a) & set(b)) / BEST for a, b in zip(found.rows.tolist(), wanted.rows.tolist(), strict=True)]
    return float(np.mean(shared))


def line(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def synthetic(rows: int) -> None:
    codes = drawn(rows + 2 * BATCH)
    queries, codes = sp.csr_array(codes[rows:]), sp.csr_array(codes[:rows])
    features = Features(codes)
    index = Index.build(features)
    wanted = index.query(queries)  # also compiles
    common = np.bincount(codes.indices).max() / rows
    print(f"\n{rows:,} x {FEATURES:,} synthetic codes, {ACTIVE} active, most common feature on {common:.0%} of rows\n")
    line("", "queries/s", "against SciPy")
    line("---", "---:", "---:")
    singles = [queries[[place]] for place in range(100)]
    dense = [query.toarray()[0] for query in singles]
    ours = len(singles) / seconds(lambda: [index.query(query) for query in singles])
    theirs = len(dense) / seconds(lambda: [best_of(codes @ query) for query in dense])
    line("SciPy, one query at a time: CSR times a vector", f"{theirs:,.0f}", "1.0x")
    line("exact, one query at a time", f"{ours:,.0f}", f"{ours / theirs:.1f}x")
    batch = sp.csr_array(queries[:BATCH])
    ours = BATCH / seconds(lambda: index.query(batch))
    columns, turned = np.ascontiguousarray(batch.toarray().T), sp.csr_array(codes.T)
    peers = {
        "CSR times a dense matrix": lambda: best_of((codes @ columns).T),
        "CSR times CSR": lambda: best_of((batch @ turned).toarray()),
    }
    rates = {name: BATCH / seconds(work) for name, work in peers.items()}
    theirs = max(rates.values())
    for name, rate in rates.items():
        line(f"SciPy, batches of {BATCH}: {name}", f"{rate:,.0f}", f"{rate / theirs:.1f}x")
    line(f"exact, batches of {BATCH}", f"{ours:,.0f}", f"{ours / theirs:.1f}x")
    small = Index.build(features, quantised=True)
    small.query(batch)  # compiles
    ours = BATCH / seconds(lambda: small.query(batch))
    kept = recall(small.query(queries), wanted)
    line(f"exact with values in 8 bits, batches of {BATCH}: recall {kept:.4f}", f"{ours:,.0f}", f"{ours / theirs:.1f}x")
    tried = []
    built = time.perf_counter()
    fast = Index.build(features, "seismic")
    built = time.perf_counter() - built
    for factor, walked in SEISMIC:
        fast._engine._settings.update(heap_factor=factor, query_features=walked)  # type: ignore[attr-defined]
        rate = 2 * BATCH / seconds(lambda: fast.query(queries))
        tried.append((rate, recall(fast.query(queries), wanted), factor, walked))
    usual = next(row for row in tried if row[2:] == (0.8, 12))
    quickest = max(row for row in tried if row[1] >= 0.99)
    for name, (rate, found, factor, walked) in (("default settings", usual), ("fastest with recall ≥ 0.99", quickest)):
        settings = f"recall {found:.4f}, heap_factor {factor}, query_features {walked}, built in {built:.0f} s"
        line(f"seismic, batches of {2 * BATCH}, {name}: {settings}", f"{rate:,.0f}", f"{rate / theirs:.1f}x")
    with tempfile.TemporaryDirectory() as folder:
        print()
        for name, saved in (("exact", index), ("exact, 8 bits", small)):
            saved.save(Path(folder) / name)
            size = saved.size_on_disk
            print(f"{name}: index of {size:,} bytes, {size / codes.nnz:.3f} per non-zero value")


def real(vectors: str, labels: str) -> None:
    x, y = np.asarray(open_vectors(vectors), np.float32), np.asarray(read_column(labels)).astype(np.int64)
    order = np.random.default_rng(0).permutation(len(x))
    fitted, asked = order[:6000], np.sort(order[6000:])
    start = time.perf_counter()
    embedding = NonNegativeEmbedding(random_state=0).fit(x[fitted])
    taken = time.perf_counter() - start
    codes = embedding.transform(x)
    index = Index.build(Features(codes, labels=y))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    flat = faiss.IndexFlatIP(x.shape[1])
    flat.add(x)
    faiss.omp_set_num_threads(cores())
    queries, vectors_asked = sp.csr_array(codes[asked]), np.ascontiguousarray(x[asked])
    with tempfile.TemporaryDirectory() as folder:
        index.save(Path(folder) / "x.index")
    fast, small = Index.build(Features(codes), "seismic"), Index.build(Features(codes, labels=y), quantised=True)
    with tempfile.TemporaryDirectory() as folder:
        small.save(Path(folder) / "x.index")
    found = {
        "faiss exact (IndexFlatIP) on the dense vectors": flat.search(vectors_asked, BEST + 1)[1],
        "nonneg exact on codes": index.query(queries, BEST + 1).rows,
        "nonneg exact on codes in 8 bits": small.query(queries, BEST + 1).rows,
        "nonneg seismic on codes": fast.query(queries, BEST + 1).rows,
    }
    precision = {name: precision_at_10(rows, asked, y) for name, rows in found.items()}
    singles = [queries[[place]] for place in range(200)]
    vectors_one = [vectors_asked[[place]] for place in range(200)]
    print(f"\nAG News, {len(x):,} x {x.shape[1]}: codes of {codes.shape[1]} features, {codes.nnz / len(x):.0f} active")
    print(f"fitted on {len(fitted):,} rows in {taken:.0f} s, {len(asked):,} other rows are the queries\n")
    line("", "queries/s, one at a time", f"in batches of {BATCH}", "bytes a sample", "precision@10")
    line("---", "---:", "---:", "---:", "---:")
    blocks = [slice(start, start + BATCH) for start in range(0, len(asked) - BATCH, BATCH)]
    searches: dict[str, tuple[Callable[[Any], object], Any, list[Any], float]] = {
        "faiss exact (IndexFlatIP) on the dense vectors": (
            lambda given: flat.search(given, BEST),
            vectors_asked,
            vectors_one,
            x.shape[1] * 4,
        ),
        "nonneg exact on codes": (index.query, queries, singles, index.size_on_disk / len(x)),
        "nonneg exact on codes in 8 bits": (small.query, queries, singles, small.size_on_disk / len(x)),
        "nonneg seismic on codes": (fast.query, queries, singles, float("nan")),
    }
    for name, (search, given, ones, size) in searches.items():
        batches = [given[block] for block in blocks]
        one = len(ones) / seconds(lambda search=search, ones=ones: [search(query) for query in ones])
        many = len(blocks) * BATCH / seconds(lambda search=search, given=batches: [search(block) for block in given])
        line(name, f"{one:,.0f}", f"{many:,.0f}", "" if np.isnan(size) else f"{size:,.0f}", f"{precision[name]:.3f}")


def precision_at_10(rows: Any, asked: Any, labels: Any) -> float:
    """Return the share of the ten nearest other rows with the same label."""
    shares = []
    for query, found in zip(asked, rows, strict=True):
        others = [row for row in found if row != query and row >= 0][:BEST]
        shares.append(np.mean(labels[others] == labels[query]))
    return float(np.mean(shares))


def anonymous() -> float:
    """Return the megabytes of memory that are not backed by a file."""
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) / 1024


def peak(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the result of `work`, its seconds, and its peak of additional anonymous memory in megabytes."""
    before, most, done = anonymous(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            most.append(anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    result = work()
    taken = time.perf_counter() - start
    most.append(anonymous())
    done.set()
    watcher.join()
    return result, taken, max(most) - before


def grown(rows: int) -> tuple[str, ...]:
    """Build, save, open and query an index of `rows` rows; runs in its own process, so that memory is its own."""
    Index.build(Features(drawn(100))).query(drawn(2))  # compiles, or loads the compiled code
    with tempfile.TemporaryDirectory() as folder:
        Features(drawn(rows)).save(Path(folder) / "x.features")
        features = Features.load(Path(folder) / "x.features")
        index, built, memory = peak(lambda: Index.build(features))
        saved = seconds(lambda: index.save(Path(folder) / "x.index"), 1)
        size = index.size_on_disk / 1e6
        del index
        index, opened, held = peak(lambda: Index.open(Path(folder) / "x.index"))
        queries = drawn(2 * BATCH, seed=1)
        singles = [queries[[place]] for place in range(50)]
        one = len(singles) / seconds(lambda: [index.query(query) for query in singles])
        many = 2 * BATCH / seconds(lambda: index.query(queries))
    costs = (f"{built:.2f}", f"{memory:,.0f}", f"{saved:.2f}", f"{size:,.1f}", f"{opened:.3f}", f"{held:,.0f}")
    return (f"{rows:,}", *costs, f"{one:,.0f}", f"{many:,.0f}")


def growth(sizes: Sequence[int]) -> None:
    print("\nexact engine; features and index are memory-mapped folders; memory is not backed by files\n")
    headings = ("rows", "build, s", "memory to build, MB", "save, s", "index, MB", "open, s", "memory when open, MB")
    line(*headings, "queries/s, one at a time", f"in batches of {2 * BATCH}")
    line(*["---:"] * 9)
    processes = ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1)
    with processes as pool:
        for cells in pool.map(grown, sizes):
            line(*cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", help="a file of vectors, for real codes")
    parser.add_argument("--labels", help="the labels of the vectors")
    parser.add_argument("--rows", type=int, default=100_000, help="number of synthetic codes")
    parser.add_argument("--growth", type=int, nargs="*", default=GROWTH, help="numbers of rows for scaling")
    arguments = parser.parse_args()
    print(f"{described()}; {cores()} threads; faiss {faiss.__version__}; load {os.getloadavg()[0]:.1f}")
    synthetic(arguments.rows)
    if arguments.vectors:
        real(arguments.vectors, arguments.labels)
    growth(arguments.growth)


if __name__ == "__main__":
    main()
