"""Run as a script, with a folder: use the core of nonneg where the packages of its extras are not installed."""

import itertools
import sys
import warnings
from pathlib import Path

EXTRAS = {
    *("fastapi", "starlette", "uvicorn", "anyio"),
    *("lightning_fabric", "torchmetrics", "matplotlib"),
    *("numba", "seismic", "pymilvus", "milvus_lite"),
    *("pandas", "tokenizers", "huggingface_hub", "torch_geometric", "sentence_transformers", "tensorboard"),
    "PIL",
}


class WithoutExtras:
    """Finds modules as Python does, except for those of the extras."""

    def __init__(self, finders):
        self.finders = finders

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in EXTRAS:
            return None
        return next(filter(None, (finder.find_spec(name, path, target) for finder in self.finders)), None)

    def find_distributions(self, *context):
        """Installed packages by name, for `importlib.metadata`."""
        found = (
            finder.find_distributions(*context) for finder in self.finders if hasattr(finder, "find_distributions")
        )
        return itertools.chain.from_iterable(found)


def run(*arguments):
    """Run a command in this process and return its exit code."""
    from nonneg.cli import main

    sys.argv = ["nonneg", *arguments]
    try:
        main()
    except SystemExit as stop:
        return stop.code
    return 0


def check_losses_and_metrics(root):
    import numpy as np
    import scipy.sparse as sp
    import torch

    from nonneg import NonNegative, losses, metrics

    z = NonNegative("rep_relu")(torch.randn(32, 8, requires_grad=True))
    losses.info_nce(z, z, temperature=0.2).backward()
    rng = np.random.default_rng(0)
    codes, labels = sp.random_array((60, 40), density=0.2, rng=rng, format="csr"), rng.integers(0, 3, 60)
    for metric in (metrics.precision_at_k, metrics.mean_average_precision):
        assert abs(metric(codes, labels) - metric(codes.toarray(), labels)) < 1e-9
    assert abs(metrics.recall_at_k(codes, codes) - metrics.recall_at_k(codes.toarray(), codes.toarray())) < 1e-9
    metrics.sepin(codes, codes, k=(1,))


def check_estimators(root):
    import numpy as np

    from nonneg import Features, NonNegativeClassifier, NonNegativeEmbedding

    vectors = np.random.default_rng(0).normal(size=(120, 8)).astype(np.float32)
    estimator = NonNegativeEmbedding(n_components=16, max_active=4, max_iter=2, random_state=0).fit(vectors)
    codes = estimator.transform(vectors)
    assert codes.shape == (120, 16) and (codes.data > 0).all()
    labels = np.arange(120) % 2
    NonNegativeClassifier(estimator).fit(vectors, labels).explain(vectors[0])
    Features(codes, labels=labels).save(root / "x.features")
    assert (Features.load(root / "x.features").codes != codes).nnz == 0
    np.save(root / "vectors.npy", vectors)
    np.save(root / "labels.npy", labels)


def check_commands(root):
    vectors, labels = str(root / "vectors.npy"), str(root / "labels.npy")
    small = ("--n-components", "16", "--max-active", "4", "--max-iter", "2")
    assert run("convert", vectors, "--labels", labels, "--out", str(root / "run"), *small) == 0
    assert run("measure", str(root / "run.features")) == 0
    assert run("doctor", vectors, "--labels", labels, "--max-iter", "2") == 0
    assert run("verify", str(root / "run.features")) == 0


def check_missing_extras(root):
    features = str(root / "run.features")
    assert run("explore", features, "--no-browser") == 2
    assert run("export", features, str(root / "site")) == 2
    assert run("search", features, "--like", "0") == 2
    assert run("index", features) == 2
    assert run("train", "digits", "--out", str(root / "trained")) == 2
    assert run("demo", "--out", str(root / "demo")) == 2
    assert run("select", features, "--test", features, "--out", str(root / "x.png")) == 2
    assert {path.name for path in root.iterdir()} == {"run", "run.features", "x.features", "vectors.npy", "labels.npy"}


def main():
    warnings.simplefilter("error")
    if "--block" in sys.argv:
        sys.meta_path = [WithoutExtras(sys.meta_path)]
    root = Path(sys.argv[1])
    for check in (check_losses_and_metrics, check_estimators, check_commands, check_missing_extras):
        check(root)


if __name__ == "__main__":
    main()
