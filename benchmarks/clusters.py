"""K-means on features themselves and, as `nonneg measure --parts clusters` has it, on their leading directions.

    python -m benchmarks.clusters vectors.npz …       # each with the arrays `vectors` and `labels`
    python -m benchmarks.clusters FEATURES …          # labelled features that exist already

Prints the mean accuracy over five seeds of k-means with ten starts each, and the lowest and highest. Vectors are also
converted to 1,024 features, 32 of them active per row.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics.cluster import contingency_matrix

from nonneg import NonNegativeEmbedding
from nonneg.codes import unit_rows
from nonneg.evaluate import clustering
from nonneg.features import Features, is_features
from nonneg.layout import markdown_table

SEEDS = range(5)


def on_features(features: Features, seed: int) -> float:
    """Return the accuracy of k-means on rows of length 1, as they are."""
    labels = np.asarray(features.labels)
    found = KMeans(len(np.unique(labels)), n_init=10, random_state=seed).fit_predict(unit_rows(features.codes))
    counts = contingency_matrix(labels, found)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / len(labels))


def opened(path: Path) -> Iterator[tuple[str, Features]]:
    if is_features(path):
        yield path.stem, Features.load(path)
        return
    with np.load(path) as arrays:
        vectors, labels = arrays["vectors"].astype(np.float32), arrays["labels"]
    yield f"{path.stem}, vectors", Features(vectors, labels=labels)
    embedding = NonNegativeEmbedding(n_components=1024, max_active=32, max_iter=30, random_state=0)
    yield f"{path.stem}, codes", Features(embedding.fit(vectors).transform(vectors), labels=labels)


def cell(values: list[float]) -> str:
    return f"{100 * np.mean(values):.1f} ({100 * min(values):.1f} to {100 * max(values):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    rows = []
    for path in parser.parse_args().paths:
        for name, features in opened(path):
            plain = [on_features(features, seed) for seed in SEEDS]
            reduced = [float(clustering(features, seed).hits.mean()) for seed in SEEDS]
            rows.append([name, cell(plain), cell(reduced)])
            print(rows[-1], flush=True)
    print(markdown_table(["", "features", "leading directions"], rows))


if __name__ == "__main__":
    main()
