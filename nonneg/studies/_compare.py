"""Compare several ways of turning the same vectors into codes, by the same metrics."""

import time
import warnings
from collections.abc import Sequence
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from nonneg import metrics
from nonneg.convert import NonNegativeEmbedding, checked_config, encoded_inputs, neighbours_kept
from nonneg.errors import InputError
from nonneg.progress import progress_bar
from nonneg.studies._comparison import COLUMNS, Comparison
from nonneg.studies._held_out import Split, probe_held_out, split_rows
from nonneg.studies._peers import METHODS, Fitted, Settings

_TRANSDUCTIVE_ROWS = 2_000


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
    """Fit every method on the same train rows and measure its codes on the same test rows.

    All rows are scaled to length 1. Every method is fitted on the train rows of `vectors` and of `pairs`; only nonneg
    uses the pairing of the rows. `METHODS` describes the methods, `COLUMNS` the columns of the table.

    Args:
        vectors: `(rows, width)`: an array or memory map.
        pairs: vectors of the same shape: row i of both are two views of the same thing.
        labels: `(rows,)` whole numbers or strings; negative numbers, NaN, None and "" are unlabelled.
        embedding: the estimator to compare, with its parameters; by default `NonNegativeEmbedding()`. The other
            methods use its `n_components`, `max_active` and `max_iter` where they can; `random_state` is set to the
            seed.
        train_rows: number of rows to fit on; by default 80%, at most 20,000.
        test_rows: number of other rows to evaluate on; by default the remaining ones, at most 5,000.
        seeds: methods with a random start are fitted once per seed; the split is always the same.
        methods: which of raw, pca, ica, nmf, symmetric-nmf, dictionary, autoencoder, autoencoder-samples, nonneg; by
            default all.
        progress: show a progress bar on standard error.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(60, 4))
        >>> compare(x, methods=["raw"], progress=False).rows["raw"]["bytes"]
        [16.0]
    """
    embedding = NonNegativeEmbedding() if embedding is None else embedding
    names = _checked_names(methods)
    settings = [_checked_settings(embedding, seed) for seed in _checked_seeds(seeds)]
    split = split_rows(vectors, pairs, labels, train_rows, test_rows)
    rows: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    notes: dict[str, None] = {}  # an ordered set
    fits = [(name, each) for name in names for each in (settings if METHODS[name].is_random else settings[:1])]
    with progress_bar(progress) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported as a note instead
        task = bar.add_task("", total=len(fits))
        for name, each in fits:
            bar.update(task, description=METHODS[name].title)
            figures, new_notes = _measure(name, split, each)
            for column, value in figures.items():
                rows[name].setdefault(column, []).append(value)
            notes.update(dict.fromkeys(new_notes))
            bar.advance(task)
    protocol = {"train_rows": len(split.train), "test_rows": len(split.test), "seeds": list(seeds)}
    protocol |= {name: getattr(settings[0], name) for name in ("n_components", "max_active", "max_iter")}
    filled = {column for row in rows.values() for column in row}
    return Comparison(rows, tuple(column for column in COLUMNS if column in filled), protocol, tuple(notes))


def compare_files(
    vectors: str,
    pairs: str | None = None,
    labels: str | None = None,
    sentence_model: str | None = None,
    embedding: NonNegativeEmbedding | None = None,
    progress: bool = True,
    **settings: Any,
) -> Comparison:
    """Run `compare` on vectors, or texts, and pairs and labels from files, as `convert_file` reads them."""
    device = "auto" if embedding is None else embedding.device
    given = encoded_inputs(vectors, pairs, labels, sentence_model, device, progress)
    return compare(given.vectors, given.pairs, given.labels, embedding=embedding, progress=progress, **settings)


def _measure(name: str, split: Split, settings: Settings) -> tuple[dict[str, float], list[str]]:
    """Fit one method; return its figures by column, and notes about the fit."""
    method, test, labels, notes = METHODS[name], split.test, split.test_labels, []
    if method.is_transductive:
        test, labels = test[:_TRANSDUCTIVE_ROWS], None if labels is None else labels[:_TRANSDUCTIVE_ROWS]
        notes.append(
            f"{method.title} cannot encode new rows: it was fitted on {len(test):,} test rows and evaluated on them."
        )
    start = time.perf_counter()
    if method.is_transductive:
        fitted = method.fit(test, None, settings)
    else:
        fitted = method.fit(split.train, split.train_pairs, settings)
    seconds = time.perf_counter() - start
    if fitted.stopped_at is not None:
        notes.append(f"{method.title} did not converge within {fitted.stopped_at} iterations.")
    codes = fitted.encode(test)
    figures = {
        "features": float(codes.shape[1]),
        "active": (1 - metrics.sparsity(codes)) * codes.shape[1],
        "neighbours_kept": neighbours_kept(test, codes),
        "bytes": metrics.stored_bytes(codes),
        "seconds": seconds,
    }
    if labels is not None and (known := labels >= 0).any():
        consistency = metrics.class_consistency(codes[known], labels[known])
        figures["consistency"] = consistency.supported
        figures["consistency_floor"] = consistency.floor
        figures["consistency_excess"] = consistency.excess
    if not method.is_transductive:
        figures |= _measure_encoder(fitted, codes, split)
    return figures, notes


def _measure_encoder(fitted: Fitted, codes: Any, split: Split) -> dict[str, float]:
    """Return the figures that need codes of other rows than the test rows."""
    train = fitted.encode(split.train)
    figures = {"dead": float((~metrics.live_features(train)).sum())}
    if split.train_labels is not None:
        probe = probe_held_out(train, split.train_labels, codes, split.test_labels)
        figures["probe"] = float("nan") if probe is None else probe.accuracy
    if split.test_pairs is not None:
        figures["recall_at_1"] = metrics.recall_at_k(fitted.encode(split.test_pairs), codes)
    return figures


def _checked_names(methods: Sequence[str] | None) -> list[str]:
    names = list(METHODS) if methods is None else list(dict.fromkeys(methods))
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        found = repr(unknown[0]) if unknown else "no entry"
        raise InputError(f"methods has {found}, expected some of {', '.join(METHODS)}")
    return names


def _checked_seeds(seeds: Sequence[int]) -> Sequence[int]:
    if not seeds or any(type(seed) is not int or not 0 <= seed < 2**32 for seed in seeds):
        raise InputError(f"seeds is {list(seeds)}, expected one or more whole numbers from 0 to 2³² - 1")
    return seeds


def _checked_settings(embedding: NonNegativeEmbedding, seed: int) -> Settings:
    checked_config(embedding.get_params(), 0)
    if embedding.max_active is None:
        raise InputError("max_active is None, expected a number: the autoencoder and dictionary learning need one")
    if embedding.supervised:
        raise InputError("supervised is True, expected False: the other methods are fitted without labels")
    return Settings(embedding.n_components, embedding.max_active, embedding.max_iter, seed, embedding)
