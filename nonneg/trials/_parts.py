"""The parts of a measurement that need a trained run and its data."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg import metrics
from nonneg.codes import unit_rows
from nonneg.errors import InputError
from nonneg.evaluate import (
    DECIMALS,
    Figure,
    Part,
    fit_probe,
    linear_probe,
    mean_figure,
    on_fastest_device,
    require_same_classes,
)
from nonneg.models import Layer
from nonneg.trials._augmented import augmented_probe
from nonneg.trials._fine_tune import fine_tune
from nonneg.trials._labelled_training import LabelledResult
from nonneg.trials._pairs import agreement, zero_shot
from nonneg.trials._subject import TrainedSubject, embed_layers, split_sources, test_source
from nonneg.trials._views import embed_view

_LAYERS: tuple[Layer, ...] = ("encoder", "projector")
_SEPIN_SAMPLES = 2_048  # test samples whose two views SEPIN compares


def _sepin(subject: TrainedSubject) -> Iterator[Figure]:
    """The information about a sample that only one feature carries, from two views of test samples."""
    # A random sample, because data is often sorted by class.
    rows = np.random.default_rng(0).permutation(len(subject.test_source))[:_SEPIN_SAMPLES]
    some = subject.test_source.take(np.sort(rows))
    embedded = [embed_view(subject.model, some, view, subject.seed or 0) for view in (0, 1)]
    for layer in _LAYERS:
        first, second = (on_fastest_device(both[layer].codes) for both in embedded)
        found = metrics.sepin(first, second, k=(1, 10, 100, None))
        for k, value in found.at.items():
            margin = 1.96 * found.standard_error[k]
            key, title = ("sepin_all", "SEPIN, all") if k is None else (f"sepin_at_{k}", f"SEPIN@{k}")
            yield Figure(
                key, layer, title, value, "{:.3g}", None, (value - margin, value + margin), f"SEPIN: {found.variant}"
            )


def _corruptions(subject: TrainedSubject) -> Iterator[Figure]:
    """The probe, fitted on clean samples and evaluated on corrupted ones."""
    fitted = {layer: fit_probe(features) for layer, features in subject.train.items()}
    hits: dict[tuple[str, str], list[Any]] = {}
    corrupted = subject.model.modality.corrupted(subject.test_source)
    if not corrupted:
        raise InputError(f"there are no corruptions of {subject.model.modality.name}")
    for kind, sources in corrupted.items():
        for source in sources:
            features = embed_layers(subject.model, source)
            for layer, probe in fitted.items():
                hits.setdefault((layer, kind), []).append(probe.test(features[layer]).hits)
    for layer in fitted:
        by_kind = {kind: np.mean(hits[layer, kind], axis=0) for kind in corrupted}
        yield mean_figure("corruptions", layer, "probe, corrupted samples", np.mean(list(by_kind.values()), axis=0))
        for kind, values in by_kind.items():
            yield mean_figure(f"corruption_{kind}", layer, f"probe, {kind.replace('_', ' ')}", values)


def _partners(subject: TrainedSubject) -> Iterator[Figure]:
    """Whether a test sample finds its partner among those of all test samples; similarities beside people's scores."""
    found = subject.model.modality.partners(subject.test_source)
    if found is None:
        raise InputError(f"{subject.test_source.name} has no pairs")
    partners, scores = found
    others = embed_layers(subject.model, partners)
    rows, own = _candidates(subject.model.modality.partner_numbers(subject.test_source), len(partners))
    for layer in _LAYERS:
        first, second = (on_fastest_device(codes) for codes in (subject.whole[layer].codes, others[layer].codes[rows]))
        for k, key, title in ((1, "recall_at_1", "partner found, R@1"), (10, "mrr_at_10", "partner's rank, MRR@10")):
            ranks = metrics.mean_reciprocal_rank(first, second, k, reduce=False, own=own).cpu().numpy()
            yield mean_figure(key, layer, title, ranks)
        if scores is not None:
            yield _spearman(subject.whole[layer].codes, others[layer].codes, scores, layer)


def _candidates(numbers: Sequence[Any] | None, samples: int) -> tuple[Any, Any]:
    """Return the rows of the partners to search, each partner once, and which of them belong to each sample."""
    if numbers is None:
        return np.arange(samples), None
    known, rows = np.unique([own[0] for own in numbers], return_index=True)
    sample, partner = np.repeat(np.arange(samples), list(map(len, numbers))), np.concatenate(numbers)
    place = np.searchsorted(known, partner).clip(max=len(known) - 1)
    is_candidate = known[place] == partner
    entries = (np.ones(is_candidate.sum(), bool), (sample[is_candidate], place[is_candidate]))
    return rows, sp.csr_array(entries, shape=(samples, len(known)))


def _spearman(first: Any, second: Any, scores: Any, layer: str) -> Figure:
    from scipy.stats import spearmanr

    a, b = unit_rows(first), unit_rows(second)
    cosines = np.asarray(a.multiply(b).sum(axis=1)).ravel() if sp.issparse(a) else (a * b).sum(axis=1)
    value = float(spearmanr(cosines, scores).statistic)
    # Fisher's transformation, with the variance of Bonett and Wright for ranks.
    margin = 1.96 * np.sqrt((1 + value**2 / 2) / max(len(cosines) - 3, 1))
    low, high = np.tanh(np.arctanh(np.clip(value, -1 + 1e-12, 1 - 1e-12)) + margin * np.array([-1, 1]))
    variant = f"Spearman: cosine of {len(cosines):,} pairs and their scores"
    return Figure("spearman", layer, "Spearman with scores", value, DECIMALS, None, (float(low), float(high)), variant)


def _augmented(subject: TrainedSubject, epochs: int) -> Iterator[Figure]:
    variant = f"Linear probe by SGD on views: {epochs} epochs"
    for layer in _LAYERS:
        hits = augmented_probe(
            subject.model, subject.train_source, subject.test_source, layer=layer, epochs=epochs, seed=subject.seed or 0
        ).hits
        yield mean_figure("augmented_probe", layer, "linear probe by SGD on views", hits, variant)


def _fine_tuning(subject: TrainedSubject, epochs: int) -> Iterator[Figure]:
    found = fine_tune(subject.model, subject.train_source, subject.test_source, epochs=epochs, seed=subject.seed or 0)
    yield fine_tuning_figure(found)


def fine_tuning_figure(found: LabelledResult) -> Figure:
    """Return the figure of a finished fine-tuning."""
    return mean_figure("fine_tuning", "encoder", "fine-tuned", found.hits, f"Fine-tuned: {len(found.curve)} epochs")


def transfer(subject: TrainedSubject, data: str, name: str) -> Part:
    """A probe fitted and evaluated on another data set. The data is opened now, so that errors come early."""
    sources = split_sources(subject.model, data)

    def figures(subject: TrainedSubject) -> Iterator[Figure]:
        train, test = (embed_layers(subject.model, source) for source in sources)
        for layer, features in test.items():
            hits = linear_probe(train[layer], features).hits
            yield mean_figure(f"transfer_{name}", layer, f"probe on {name}", hits)

    return Part(figures, must_succeed=True)


def shifted(subject: TrainedSubject, data: str, name: str) -> Part:
    """The run's own probe, evaluated on shifted samples of the same classes. The data is opened now."""
    source = test_source(subject.model, data)
    require_same_classes(subject.train_source.label_names, source.label_names)

    def figures(subject: TrainedSubject) -> Iterator[Figure]:
        features = embed_layers(subject.model, source)
        for layer, train in subject.train.items():
            hits = fit_probe(train).test(features[layer]).hits
            yield mean_figure(f"shifted_{name}", layer, f"probe, evaluated on {name}", hits)

    return Part(figures, needs_probe=True, must_succeed=True)


def run_parts(probe_epochs: int, fine_tune_epochs: int) -> dict[str, Part]:
    """Return the parts that need a run and its own data, by name."""
    return {
        "sepin": Part(_sepin),
        "partners": Part(_partners),
        "zero-shot": Part(zero_shot),
        "agreement": Part(agreement),
        "corruptions": Part(_corruptions, needs_probe=True),
        "augmented-probe": Part(partial(_augmented, epochs=probe_epochs), needs_probe=True),
        "fine-tuning": Part(partial(_fine_tuning, epochs=fine_tune_epochs), needs_probe=True),
    }
