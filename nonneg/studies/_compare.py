"""The comparison: one set of vectors, several ways of turning them into codes, the same measures for all."""

import time
import warnings
from collections.abc import Sequence
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from nonneg import metrics
from nonneg.convert import NonNegativeEmbedding, checked_config, neighbours_kept, open_inputs
from nonneg.errors import InputError
from nonneg.progress import progress_bar
from nonneg.studies._comparison import COLUMNS, Comparison
from nonneg.studies._held_out import Split, split_rows
from nonneg.studies._peers import METHODS, Settings

_TRANSDUCTIVE_ROWS = 2_000
_PROBE_ITERATIONS = 1_000


def compare(
    vectors: Any,
    pairs: Any = None,
    labels: Any = None,
    *,
    embedding: NonNegativeEmbedding | None = None,
    train_rows: int | None = None,
    test_rows: int | None = None,
    seeds: Sequence[int] = (0,),
    methods: Sequence[str] | None = None,
    progress: bool = True,
) -> Comparison:
    """Fit every method on the same train rows and measure its codes of the same test rows.

    All rows are scaled to length 1 first. Every method is fitted on the train rows of `vectors` and, as
    further rows, on those of `pairs`; ours and nothing else is told which belong together. Of the peers:

    - PCA and FastICA have at most as many components as the rows have dimensions; FastICA stops after 100
      iterations.
    - NMF sees `[max(x, 0), max(-x, 0)]`, has at most as many components as the vectors are wide, starts from
      an SVD, and takes 15 passes of coordinate descent with a small L1 penalty, which measured better than none.
    - Symmetric NMF factorises `max(x xᵀ, 0)` of at most 2,000 test rows into a quarter as many features, by 300
      multiplicative updates. It cannot encode other rows, so what needs them stays empty.
    - Dictionary learning takes 3 passes with a penalty of 0.1; codes are a positive lasso's, of each row
      the `max_active` largest.
    - The TopK autoencoder takes as many steps, of 512 rows, as ours. Its features begin as random directions, as
      is usual, and in a second row as samples, as ours do.

    Columns: `active` features of a test row (above 1e-5 of the row's length), `dead` ones (active on no train
    row of `vectors`), `probe` (accuracy of logistic regression, C = 1, on codes of length 1, fitted on train rows
    of `vectors`), class `consistency` of features active on 10 test rows or more, by chance (labels permuted)
    and the `excess` over it, `recall_at_1` (a test row of `pairs` finds its own among all test rows of `vectors`
    by cosine; ties count by their share), `neighbours_kept` (of the vectors' 10 nearest test rows), `bytes` of a
    row (8 an active feature where under half are, else 4 a feature), `seconds` of the fit.

    Args:
        vectors: `(rows, width)`: an array or memory map.
        pairs: vectors of the same shape: row i of both are two views of one thing.
        labels: `(rows,)` integers; negative ones are unlabelled.
        embedding: ours, with its parameters; the defaults if left out. Its `n_components`, `max_active` and
            `max_iter` (steps) are those of the peers, where they can have so many; `random_state` is the seed's.
        train_rows: how many rows to fit on; 80% of all, at most 20,000, if left out.
        test_rows: how many other rows to measure on; what is left, at most 5,000, if left out.
        seeds: methods with a random start are fitted once a seed; the split is always the same.
        methods: which ones, of raw, pca, ica, nmf, symmetric-nmf, dictionary, autoencoder, autoencoder-samples,
            nonneg; all if left out.
        progress: show a progress bar on standard error.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(60, 4))
        >>> compare(x, methods=["raw"], progress=False).rows["raw"]["bytes"]
        [16.0]
    """
    embedding = NonNegativeEmbedding() if embedding is None else embedding
    checked_config(embedding.get_params(), 0)
    if embedding.max_active is None:
        raise InputError("max_active is None, expected a number: the autoencoder and dictionary learning need one")
    n_components, max_active, max_iter = embedding.n_components, embedding.max_active, embedding.max_iter
    if embedding.supervised:
        raise InputError("supervised is True, expected False: the other methods are fitted without labels")
    if not seeds or any(type(seed) is not int or not 0 <= seed < 2**32 for seed in seeds):
        raise InputError(f"seeds is {list(seeds)}, expected whole numbers from 0 to 2³² - 1, at least one")
    names = _checked_names(methods)
    split = split_rows(vectors, pairs, labels, train_rows, test_rows)
    rows: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    notes: dict[str, None] = {}  # each once, in order
    fits = [(name, seed) for name in names for seed in (seeds if METHODS[name].is_random else seeds[:1])]
    with progress_bar(progress) as bar:
        task = bar.add_task("", total=len(fits))
        for name, seed in fits:
            bar.update(task, description=METHODS[name].title)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # a note says so instead
                figures, said = _measured(name, split, Settings(n_components, max_active, max_iter, seed, embedding))
            for column, value in figures.items():
                rows[name].setdefault(column, []).append(value)
            notes.update(dict.fromkeys(said))
            bar.advance(task)
    protocol = {
        "train_rows": len(split.train),
        "test_rows": len(split.test),
        "n_components": n_components,
        "max_active": max_active,
        "max_iter": max_iter,
        "seeds": list(seeds),
    }
    filled = {column for row in rows.values() for column in row}
    return Comparison(rows, tuple(column for column in COLUMNS if column in filled), protocol, tuple(notes))


def compare_files(vectors: str, pairs: str | None = None, labels: str | None = None, **settings: Any) -> Comparison:
    """`compare`, of vectors, pairs and labels in files, as `convert_file` reads them."""
    given = open_inputs(vectors, pairs, labels, progress=settings.get("progress", True), with_ids=False)
    return compare(given.vectors, given.pairs, given.labels, **settings)


def _measured(name: str, split: Split, settings: Settings) -> tuple[dict[str, float], list[str]]:
    """Figures of one fit by column, and notes on it."""
    method, test, labels, notes = METHODS[name], split.test, split.test_labels, []
    begun = time.perf_counter()
    if method.is_transductive:
        test, labels = test[:_TRANSDUCTIVE_ROWS], None if labels is None else labels[:_TRANSDUCTIVE_ROWS]
        fitted = method.fit(test, None, settings)
        notes.append(f"{method.title} cannot encode new rows: fitted on {len(test):,} test rows and measured on them.")
    else:
        fitted = method.fit(split.train, split.train_pairs, settings)
    seconds = time.perf_counter() - begun
    if fitted.stopped_at is not None:
        notes.append(f"{method.title} did not converge within {fitted.stopped_at} iterations.")
    codes = fitted.encode(test)
    features = codes.shape[1]
    figures = {
        "features": float(features),
        "active": (1 - metrics.sparsity(codes)) * features,
        "neighbours_kept": neighbours_kept(test, codes),
        "bytes": metrics.stored_bytes(codes),
        "seconds": seconds,
    }
    if labels is not None:
        known = labels >= 0
        consistency = metrics.class_consistency(codes[known], labels[known])
        figures["consistency"] = consistency.supported
        figures["consistency_floor"] = consistency.floor
        figures["consistency_excess"] = consistency.excess
    if method.is_transductive:
        return figures, notes
    train = fitted.encode(split.train)
    figures["dead"] = float((~metrics.live_features(train)).sum())
    if labels is not None and split.train_labels is not None:
        told = split.train_labels >= 0
        probe = LogisticRegression(C=1.0, max_iter=_PROBE_ITERATIONS)
        probe.fit(normalize(train[told]), split.train_labels[told])
        figures["probe"] = float(probe.score(normalize(codes[known]), labels[known]))
        if probe.n_iter_.max() >= _PROBE_ITERATIONS:
            notes.append(f"The probe of {method.title} did not converge within {_PROBE_ITERATIONS} iterations.")
    if split.test_pairs is not None:
        figures["recall_at_1"] = metrics.recall_at_k(fitted.encode(split.test_pairs), codes)
    return figures, notes


def _checked_names(methods: Sequence[str] | None) -> list[str]:
    names = list(METHODS) if methods is None else list(dict.fromkeys(methods))
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        found = repr(unknown[0]) if unknown else "nothing"
        raise InputError(f"methods has {found}, expected some of {', '.join(METHODS)}")
    return names
