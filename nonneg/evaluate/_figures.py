"""The figures that `measure` gathers: what each part says of one subject and layer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nonneg import metrics
from nonneg.errors import InputError
from nonneg.evaluate._augmented import augmented_probe
from nonneg.evaluate._changed import viewed_source
from nonneg.evaluate._corruptions import KINDS, SEVERITIES, corrupted_source
from nonneg.evaluate._fine_tune import FineTuned, fine_tune
from nonneg.evaluate._neighbours import neighbour_hits
from nonneg.evaluate._place import placed
from nonneg.evaluate._probe import fit_probe, linear_probe, require_known
from nonneg.evaluate._scarce import few_labels, noisy_labels
from nonneg.evaluate._statistics import bootstrap_interval, consistency_errors
from nonneg.evaluate._subject import Subject, Trained, split_sources, test_source
from nonneg.features import Features
from nonneg.models import Layer

Array = npt.NDArray[np.float64]
PERCENT, DECIMALS, COUNT = "{:.1%}", "{:.3f}", "{:.0f}"
LAYERS: tuple[Layer, ...] = ("encoder", "projector")
SHARES = (0.01, 0.1)
NOISE_RATES = (0.2, 0.4, 0.6, 0.8, 0.9)
_NOISE_DRAWS = 3
_NOISE = f"Random labels: mean of {_NOISE_DRAWS} draws of them, the same in every column"
_VIEWED = 2_048  # test images whose two views SEPIN looks at


@dataclass(frozen=True)
class Figure:
    """One number.

    Attributes:
        key: what it is called in JSON.
        layer: of the model.
        title: what a table calls it.
        value: the number.
        form: how it is printed.
        samples: the value of each test sample, where the number is their mean; for intervals and paired differences.
        interval: 95%, over samples, or None where there is none.
        variant: how it was computed, where that can be done in several ways.
    """

    key: str
    layer: Layer
    title: str
    value: float
    form: str = PERCENT
    samples: Array | None = None
    interval: tuple[float, float] | None = None
    variant: str = ""


def _mean_figure(key: str, layer: Layer, title: str, samples: Any, variant: str = "") -> Figure:
    values = np.asarray(samples.cpu() if isinstance(samples, torch.Tensor) else samples, np.float64)
    mean = float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
    return Figure(key, layer, title, mean, PERCENT, values, bootstrap_interval(values), variant)


def structure(subject: Subject) -> Iterator[Figure]:
    """How sparse, live, apart and consistent the features are."""
    for layer, features in subject.whole.items():
        codes = placed(features.codes)
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
        factors = subject.trained.test.factors if subject.trained else {}
        if factors and features.shape[1] > 1:  # known of drawn data alone
            for binning in ("equal-width", "zero-quantiles"):
                gap = metrics.mutual_information_gap(features.codes, factors, binning=binning)
                key = f"mutual_information_gap_{binning}"
                yield Figure(key, layer, f"mutual information gap, {binning} bins", gap.value, DECIMALS)


def _consistency(features: Features, layer: Layer) -> Iterator[Figure]:
    labels = np.asarray(features.labels)
    codes, labels = features.codes[labels >= 0], labels[labels >= 0]
    found = metrics.class_consistency(placed(codes), labels)
    reach = 1.96 * consistency_errors(codes, labels, found.min_support)
    for i, (key, title, value) in enumerate(
        (
            ("class_consistency", "class consistency", found.value),
            ("class_consistency_supported", "… of features with 10 or more active", found.supported),
        )
    ):
        low, high = np.clip((value - reach[i], value + reach[i]), 0, 1)
        yield Figure(key, layer, title, value, PERCENT, None, (float(low), float(high)))
    yield Figure("class_consistency_floor", layer, "… by chance", found.floor)
    yield Figure("class_consistency_excess", layer, "… above chance", found.excess)
    yield Figure("class_entropy", layer, "… entropy of classes", found.entropy, DECIMALS)


def neighbours(subject: Subject) -> Iterator[Figure]:
    """Retrieval, and the k nearest as a classifier."""
    for layer, features in subject.whole.items():
        if features.labels is None:
            raise InputError("the features have no labels")
        if (features.labels >= 0).sum() > 10:
            codes = placed(features.codes)
            at_10 = metrics.precision_at_k(codes, features.labels, k=10, reduce=False)
            yield _mean_figure("precision_at_10", layer, "precision@10", at_10)
            average = metrics.mean_average_precision(codes, features.labels, k=10, reduce=False)
            yield _mean_figure("map_at_10", layer, "mAP@10", average)
        if subject.train:
            hits = neighbour_hits(subject.train[layer], subject.test[layer])
            yield _mean_figure("neighbours", layer, "20 nearest neighbours", hits)


def probe(subject: Subject) -> Iterator[Figure]:
    """Logistic regression on cached features."""
    for layer, test in subject.test.items():
        yield _mean_figure("probe", layer, "linear probe", linear_probe(subject.train[layer], test).hits)


def scarce_labels(subject: Subject) -> Iterator[Figure]:
    """The probe with few labels."""
    for layer, test in subject.test.items():
        for share in SHARES:
            hits = few_labels(subject.train[layer], test, share).hits
            title = f"probe, {share:.0%} of the labels (5 a class or more)"
            yield _mean_figure(f"probe_{share:g}_of_labels", layer, title, hits)


def label_noise(subject: Subject) -> Iterator[Figure]:
    """The probe with labels replaced at random."""
    for layer, test in subject.test.items():
        for rate in NOISE_RATES:
            # Which labels are wrong makes much of a difference where few are right.
            drawn = [noisy_labels(subject.train[layer], test, rate, seed).hits for seed in range(_NOISE_DRAWS)]
            title = f"probe, {rate:.0%} of the labels random"
            yield _mean_figure(f"probe_{rate:g}_random", layer, title, np.mean(drawn, axis=0), _NOISE)


def sepin(subject: Subject) -> Iterator[Figure]:
    """What each feature alone tells of a sample, from two views of test images."""
    trained = _required(subject, "sepin")
    rows = np.random.default_rng(0).permutation(len(trained.test))[:_VIEWED]  # data often comes class by class
    first = trained.test.take(np.sort(rows))
    views = [viewed_source(first, trained.config.views, view, trained.config.seed) for view in (0, 1)]
    seen = [trained.model.embed(source, "both", media=False) for source in views]
    for layer in LAYERS:
        first_codes, second_codes = (placed(both[layer].codes) for both in seen)
        found = metrics.sepin(first_codes, second_codes, k=(1, 10, 100, None))
        for k, value in found.at.items():
            error = found.standard_error[k]
            key, title = ("sepin_all", "SEPIN, all") if k is None else (f"sepin_at_{k}", f"SEPIN@{k}")
            reach = (value - 1.96 * error, value + 1.96 * error)
            yield Figure(key, layer, title, value, "{:.3g}", None, reach, f"SEPIN: {found.variant}")


def corruptions(subject: Subject) -> Iterator[Figure]:
    """The probe, fitted on clean images, told corrupted ones."""
    trained = _required(subject, "corruptions")
    fitted = {layer: fit_probe(features) for layer, features in subject.train.items()}
    hits: dict[tuple[Layer, str], list[Any]] = {}
    for kind in KINDS:
        for severity in SEVERITIES:
            worse = corrupted_source(trained.test, kind, severity)
            features = trained.model.embed(worse, "both", media=False)
            for layer, probe in fitted.items():
                hits.setdefault((layer, kind), []).append(probe.test(features[layer]).hits)
    for layer in fitted:
        each = {kind: np.mean(hits[layer, kind], axis=0) for kind in KINDS}
        yield _mean_figure("corruptions", layer, "probe, corrupted images", np.mean(list(each.values()), axis=0))
        for kind, values in each.items():
            name = kind.replace("_", " ").replace("-", " ")
            yield _mean_figure(f"corruption_{kind}", layer, f"probe, {name}", values)


def augmented(subject: Subject, epochs: int = 50) -> Iterator[Figure]:
    """The paper's probe: SGD on views."""
    trained = _required(subject, "augmented-probe")
    variant = f"Linear probe by SGD on views: {epochs} epochs"
    for layer in LAYERS:
        hits = augmented_probe(
            trained.model, trained.train, trained.test, layer=layer, epochs=epochs, seed=subject.seed or 0
        ).hits
        yield _mean_figure("augmented_probe", layer, "linear probe by SGD on views", hits, variant)


def fine_tuning(subject: Subject, epochs: int = 30) -> Iterator[Figure]:
    """All weights trained on."""
    trained = _required(subject, "fine-tuning")
    found = fine_tune(trained.model, trained.train, trained.test, epochs=epochs, seed=subject.seed or 0)
    yield fine_tuning_figure(found)


def fine_tuning_figure(found: FineTuned) -> Figure:
    """The figure of a fine-tuning that has been done."""
    return _mean_figure("fine_tuning", "encoder", "fine-tuned", found.hits, f"Fine-tuned: {len(found.curve)} epochs")


def transfer(subject: Subject, data: str, name: str) -> Iterator[Figure]:
    """The probe on another data set's features, fitted on its train split. The data is opened at once."""
    model = _required(subject, "transfer").model
    sources = split_sources(model, data)

    def figures() -> Iterator[Figure]:
        train, test = (model.embed(source, "both", media=False) for source in sources)
        for layer, features in test.items():
            hits = linear_probe(train[layer], features).hits
            yield _mean_figure(f"transfer_{name}", layer, f"probe on {name}", hits)

    return figures()


def shifted(subject: Subject, data: str, name: str) -> Iterator[Figure]:
    """The probe fitted on the subject's own data, told images of the same classes that look otherwise.

    The data is opened at once.
    """
    trained = _required(subject, "shifted")
    source = test_source(trained.model, data)
    require_known(trained.train.label_names, source.label_names)

    def figures() -> Iterator[Figure]:
        features = trained.model.embed(source, "both", media=False)
        for layer, train in subject.train.items():
            hits = fit_probe(train).test(features[layer]).hits
            yield _mean_figure(f"shifted_{name}", layer, f"probe, told {name}", hits)

    return figures()


def _required(subject: Subject, part: str) -> Trained:
    if subject.trained is None:
        raise InputError(f"{part} needs a trained run, expected one instead of {subject.path}")
    return subject.trained


PARTS: dict[str, Callable[..., Iterator[Figure]]] = {
    "structure": structure,
    "probe": probe,
    "neighbours": neighbours,
    "few-labels": scarce_labels,
    "label-noise": label_noise,
    "sepin": sepin,
    "corruptions": corruptions,
    "augmented-probe": augmented,
    "fine-tuning": fine_tuning,
}
NEED_PROBE = {"probe", "few-labels", "label-noise", "corruptions", "augmented-probe", "fine-tuning"}
NEED_RUN = {"sepin", "corruptions", "augmented-probe", "fine-tuning"}
