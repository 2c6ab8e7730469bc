"""`measure_features`: the figures of features, in parts."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from nonneg import metrics
from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.evaluate._clusters import clustering
from nonneg.evaluate._divisions import pooled, published_split, random_splits
from nonneg.evaluate._folds import FOLDS, cross_validation
from nonneg.evaluate._measurement import COUNT, DECIMALS, Figure, Measured, error_figure, mean_figure
from nonneg.evaluate._neighbours import neighbour_hits
from nonneg.evaluate._probe import linear_probe
from nonneg.evaluate._scarce import few_labels, noisy_labels
from nonneg.evaluate._statistics import consistency_errors
from nonneg.evaluate._subject import Subject
from nonneg.features import Features
from nonneg.labels import is_labelled

_SHARES = (0.01, 0.1)
_NOISE_RATES = (0.2, 0.4, 0.6, 0.8, 0.9)
_NOISE_DRAWS = 3
_SPLITS = 20
_LITERATURE = (
    "Random splits and public split: logistic regression on rows of length 1, fitted on the first part, its strength"
    " chosen on the second, evaluated on the third"
)
_FOLDS = (
    "Folds: features standardised, SVM with an RBF kernel or logistic regression, its strength chosen on a tenth of the"
    " nine folds, evaluated on the other fold"
)
_CLUSTERS = (
    "K-means: on up to 32 leading directions of rows of length 1, or as many as classes; as many clusters as classes,"
    " best of 10 starts; each class gets one cluster"
)
_NOISE = f"Random labels: mean of {_NOISE_DRAWS} draws, the same draws in every column"


@dataclass(frozen=True)
class Part:
    """A group of figures that are measured together.

    Attributes:
        figures: yields the figures of a subject.
        needs_probe: whether it needs labelled features to fit a probe on.
        divides: whether it divides all labelled samples in a way of its own, whatever the subject's protocol is.
        must_succeed: whether an error stops the measurement instead of becoming a note.
        usual: whether it is measured if nothing is asked for.
    """

    figures: Callable[[Any], Iterator[Figure]]
    needs_probe: bool = False
    must_succeed: bool = False
    usual: bool = True
    divides: bool = False


def _structure(subject: Subject) -> Iterator[Figure]:
    """How sparse, live, decorrelated and class-consistent the features are."""
    for layer, features in subject.whole.items():
        codes = on_fastest_device(features.codes)
        if features.labels is not None and (features.labels >= 0).any():
            yield from _consistency(features, layer)
        yield Figure("sparsity", layer, "sparsity", metrics.sparsity(codes))
        if features.shape[1] > 1:
            yield Figure("hoyer", layer, "Hoyer sparsity", metrics.hoyer(codes), DECIMALS)
        activity = metrics.activity(codes)
        yield Figure("live", layer, "live features", activity.live, COUNT)
        yield Figure("dense", layer, "dense features, active on over half", activity.dense, COUNT)
        yield Figure("features", layer, "features", features.shape[1], COUNT)
        yield Figure("correlation", layer, "correlation", metrics.correlation(codes), DECIMALS)
        yield Figure("effective_rank", layer, "effective rank", metrics.effective_rank(codes), "{:.1f}")
        if subject.factors and features.shape[1] > 1:
            for binning in ("equal-width", "zero-quantiles"):
                gap = metrics.mutual_information_gap(features.codes, subject.factors, binning=binning)
                key = f"mutual_information_gap_{binning}"
                yield Figure(key, layer, f"mutual information gap, {binning} bins", gap.value, DECIMALS)


def _consistency(features: Features, layer: str) -> Iterator[Figure]:
    labels = np.asarray(features.labels)
    codes, labels = features.codes[labels >= 0], labels[labels >= 0]
    found = metrics.class_consistency(on_fastest_device(codes), labels)
    errors = consistency_errors(codes, labels, found.min_support)
    for key, title, value, error in (
        ("class_consistency", "class consistency", found.value, errors[0]),
        ("class_consistency_supported", "… of features with 10 or more active", found.supported, errors[1]),
    ):
        yield error_figure(key, layer, title, value, error)
    yield Figure("class_consistency_floor", layer, "… permuted-label floor", found.floor)
    yield Figure("class_consistency_excess", layer, "… above the floor", found.excess)
    yield Figure("class_entropy", layer, "… entropy of classes", found.entropy, DECIMALS)


def _neighbours(subject: Subject) -> Iterator[Figure]:
    """Retrieval, and the k nearest neighbours as a classifier."""
    for layer, features in subject.whole.items():
        if features.labels is None:
            raise InputError("the features have no labels")
        if (features.labels >= 0).sum() > 10:
            codes = on_fastest_device(features.codes)
            at_10 = metrics.precision_at_k(codes, features.labels, k=10, reduce=False)
            yield mean_figure("precision_at_10", layer, "precision@10", at_10)
            average = metrics.mean_average_precision(codes, features.labels, k=10, reduce=False)
            yield mean_figure("map_at_10", layer, "mAP@10", average)
        if subject.train:
            hits = neighbour_hits(subject.train[layer], subject.test[layer])
            yield mean_figure("neighbours", layer, "20 nearest neighbours", hits)


def _probe(subject: Subject) -> Iterator[Figure]:
    """Logistic regression on cached features."""
    for layer, test in subject.test.items():
        yield mean_figure("probe", layer, "linear probe", linear_probe(subject.train[layer], test).hits)


def _few_labels(subject: Subject) -> Iterator[Figure]:
    for layer, test in subject.test.items():
        for share in _SHARES:
            title = f"probe, {share:.0%} of the labels (at least 5 per class)"
            hits = few_labels(subject.train[layer], test, share).hits
            yield mean_figure(f"probe_{share:g}_of_labels", layer, title, hits)


def _label_noise(subject: Subject) -> Iterator[Figure]:
    for layer, test in subject.test.items():
        for rate in _NOISE_RATES:
            # If few labels are correct, accuracy depends strongly on which ones: several draws are averaged.
            drawn = [noisy_labels(subject.train[layer], test, rate, seed).hits for seed in range(_NOISE_DRAWS)]
            hits, title = np.mean(drawn, axis=0), f"probe, {rate:.0%} of the labels random"
            yield mean_figure(f"probe_{rate:g}_random", layer, title, hits, _NOISE)


def _random_splits(subject: Subject) -> Iterator[Figure]:
    for layer, train in subject.train.items():
        found = random_splits(pooled(train, subject.test[layer]), _SPLITS).accuracies
        title = f"probe, {_SPLITS} random splits 10/10/80"
        yield Figure("random_splits", layer, title, float(found.mean()), variant=_LITERATURE)
        yield Figure("random_splits_deviation", layer, "… deviation over splits", float(found.std(ddof=1)))


def _public_split(subject: Subject) -> Iterator[Figure]:
    if subject.split is None:
        raise InputError("the data has no published split, or the subject is not a trained run")
    for layer, train in subject.train.items():
        test = subject.test[layer]
        known = np.concatenate([is_labelled(np.asarray(part.labels)) for part in (train, test)])
        found = published_split(pooled(train, test), subject.split[known]).accuracies
        yield Figure("public_split", layer, "probe, public split", float(found[0]), variant=_LITERATURE)


def _folds(subject: Subject) -> Iterator[Figure]:
    for layer, train in subject.train.items():
        found = cross_validation(pooled(train, subject.test[layer]))
        for key, title, values in (("svm", "SVM", found.svm), ("logistic", "logistic regression", found.logistic)):
            mean = float(values.mean())
            yield Figure(f"folds_{key}", layer, f"{title}, {FOLDS} folds", mean, variant=_FOLDS)
            yield Figure(f"folds_{key}_deviation", layer, "… deviation over folds", float(values.std(ddof=1)))


def _clusters(subject: Subject) -> Iterator[Figure]:
    """K-means with as many clusters as classes, compared with the classes."""
    for layer, features in subject.whole.items():
        if features.labels is None:
            raise InputError("the features have no labels")
        found = clustering(features)
        yield mean_figure("cluster_accuracy", layer, "k-means accuracy", found.hits, _CLUSTERS)
        yield error_figure("cluster_nmi", layer, "k-means NMI", found.information, found.error, DECIMALS, _CLUSTERS)


PARTS: Mapping[str, Part] = {
    "structure": Part(_structure),
    "probe": Part(_probe, needs_probe=True),
    "neighbours": Part(_neighbours),
    "few-labels": Part(_few_labels, needs_probe=True),
    "label-noise": Part(_label_noise, needs_probe=True),
    "random-splits": Part(_random_splits, needs_probe=True, usual=False, divides=True),
    "public-split": Part(_public_split, needs_probe=True, usual=False, divides=True),
    "folds": Part(_folds, needs_probe=True, usual=False, divides=True),
    "clusters": Part(_clusters, usual=False),
}
"""What `measure` can measure of features, by name."""


def measure_features(
    subject: Subject, parts: Mapping[str, Part] | None = None, on_start: Callable[[str], Any] = lambda part: None
) -> Measured:
    """Measure the features of one subject.

    A part that the subject's data does not support becomes a note instead of an error.

    Args:
        subject: features to fit on and to evaluate on, from `split_features`.
        parts: name to part; by default those that are usual.
        on_start: called with the name of each part when it starts.

    Example:
        >>> import numpy as np
        >>> from nonneg.evaluate import split_features
        >>> from nonneg.features import Features
        >>> labels = np.arange(100) % 2
        >>> features = Features(np.eye(2, dtype=np.float32)[labels], labels=labels)
        >>> measure_features(split_features(features)).figures["probe", "projector"].value
        1.0
    """
    figures: dict[tuple[str, str], Figure] = {}
    notes, without_probe = [], []
    parts = {name: part for name, part in PARTS.items() if part.usual} if parts is None else parts
    for name, part in parts.items():
        if part.needs_probe and not subject.train:
            without_probe.append(name)
            continue
        on_start(name)
        try:
            found = list(part.figures(subject))
            figures |= {(figure.key, figure.layer): figure for figure in found}
            if not found:
                notes.append(f"{name} could not be measured: too few samples are labelled")
        except InputError as error:
            if part.must_succeed:
                raise
            notes.append(f"{name} could not be measured: {error}")
    if without_probe:
        notes.append(f"not measured, because no probe can be fitted ({subject.missing}): {', '.join(without_probe)}")
    return Measured(subject.path, subject.seed, _protocol(subject, parts), figures, subject.samples, tuple(notes))


def _protocol(subject: Subject, parts: Mapping[str, Part]) -> str:
    """Return what was measured on what: that of the subject only if a probe was fitted as it says."""
    if not subject.train or any(part.needs_probe and not part.divides for part in parts.values()):
        return subject.protocol
    layer, train = next(iter(subject.train.items()))
    labelled = sum(int(is_labelled(np.asarray(part.labels)).sum()) for part in (train, subject.test[layer]))
    others = [name for name, part in parts.items() if not part.divides]
    counts = [f"{labelled:,} labelled samples"] if len(others) < len(parts) else []
    if others:
        counts.append(f"{', '.join(others)}: {len(subject.whole[layer]):,} samples")
    return "; ".join(counts) + subject.origin


def on_fastest_device(codes: Any) -> Any:
    """Move dense codes to the GPU if there is one, where comparing all samples with each other is fast.

    Sparse codes, and all codes on a machine without a GPU, are returned unchanged.

    Example:
        >>> on_fastest_device(sp.csr_array(np.eye(2))).shape
        (2, 2)
    """
    device = choose_device()
    if sp.issparse(codes) or device.type == "cpu":
        return codes
    return torch.from_numpy(np.array(codes)).to(device)  # a copy: torch requires writable memory
