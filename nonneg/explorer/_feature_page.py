"""A feature's page: how strong it is where, on what, beside what."""

from typing import Any

import numpy as np
import numpy.typing as npt

from nonneg.explorer._answers import Band, FeaturePage, Histogram, LabelShare, Relation, Sample
from nonneg.explorer._feature_set import FeatureSet, captions
from nonneg.explorer._name_score import name_score
from nonneg.explorer._search import search

Array = npt.NDArray[Any]
_BINS, _STRONGEST, _BAND, _NEAR_MISSES, _RELATED, _LABELS = 30, 18, 9, 9, 6, 12
_TYPICAL = 50  # of the strongest samples, to know what usually comes with a feature
_BANDS = (("strong", 0.75, 1.0), ("medium", 0.5, 0.75), ("weak", 0.25, 0.5), ("faintest", 0.0, 0.25))


def feature_page(features: FeatureSet, feature: int) -> FeaturePage:
    """Everything about one feature."""
    rows, values = features.column(feature)
    return FeaturePage(
        row=features.row(feature),
        histogram=histogram(values, len(features) - len(rows)),
        strongest=features.strongest(feature, _STRONGEST),
        bands=bands(features, rows, values),
        near_misses=near_misses(features, feature, rows),
        labels=labels(features, feature),
        labelled=_labelled(features, rows),
        together=together(features, feature, rows),
        resembling=resembling(features, feature, rows),
        history=features.names.history(feature),
        name_score=name_score(features, feature, rows),
    )


def histogram(values: Array, off: int) -> Histogram:
    """Of a feature's active values; samples it is off on are counted apart."""
    if not len(values):
        return Histogram(edges=(), counts=(), off=off)
    low = min(float(values.min()), 0.0)
    counts, edges = np.histogram(values.astype(np.float64), _BINS, (low, max(float(values.max()), low + 1e-12)))
    return Histogram(edges=tuple(edges.tolist()), counts=tuple(counts.tolist()), off=off)


def bands(features: FeatureSet, rows: Array, values: Array) -> tuple[Band, ...]:
    """Samples from quarters of a feature's active samples, evenly spaced: the top alone misleads."""
    found = []
    for title, low, high in _BANDS:
        start, stop = round(low * len(rows)), round(high * len(rows))
        if stop > start:
            places = np.unique(np.linspace(start, stop - 1, min(_BAND, stop - start)).round().astype(int))[::-1]
            samples = tuple(features.sample(rows[i], values[i]) for i in places)
            found.append(Band(title=title, low=float(values[start]), high=float(values[stop - 1]), samples=samples))
    return tuple(found)


def near_misses(features: FeatureSet, feature: int, rows: Array) -> tuple[Sample, ...]:
    """Samples with the features that usually come with this one, on which it stays off all the same."""
    if not len(rows):
        return ()
    typical = np.asarray(features.units[rows[::-1][:_TYPICAL]].sum(axis=0)).ravel()
    typical[feature] = 0
    kept = np.ones(len(features), bool)
    kept[rows] = False
    return tuple(hit.sample for hit in search(features, typical, kept, _NEAR_MISSES))


def labels(features: FeatureSet, feature: int) -> tuple[LabelShare, ...]:
    """Labels of the samples it is active on, commonest first."""
    counted = [] if features.labels is None else features.labels.of(feature)
    active, total = sum(count for _, count, _ in counted), sum(total for _, _, total in counted)
    return tuple(
        LabelShare(label=label, active=count, share=count / active, everywhere=of / total)
        for label, count, of in counted[:_LABELS]
        if count
    )


def _labelled(features: FeatureSet, rows: Array) -> int:
    known = features.features.labels
    return 0 if known is None else int((np.asarray(known)[rows] >= 0).sum())


def together(features: FeatureSet, feature: int, rows: Array) -> tuple[Relation, ...]:
    """Features that fire on the same samples: the largest cosines."""
    return _related(features, features.products[feature].copy(), feature, rows)


def resembling(features: FeatureSet, feature: int, rows: Array) -> tuple[Relation, ...]:
    """Features that stand beside the same others, whether or not on the same samples.

    The cosine of two rows of `products`, without the two features' own entries.
    """
    products = features.products
    own, diagonal = products[feature], products.diagonal()
    cross = products @ own - own * own[feature] - own * diagonal  # terms of the two features themselves taken out
    squares = features.squared_products
    lengths = squares - diagonal**2 - own**2
    length = squares[feature] - own[feature] ** 2 - own**2
    scale = np.sqrt(np.clip(lengths, 0, None) * np.clip(length, 0, None))
    cosine = np.divide(cross, scale, out=np.zeros_like(cross), where=scale > 1e-6)
    return _related(features, np.clip(cosine, -1, 1), feature, rows)


def _related(features: FeatureSet, values: Array, feature: int, rows: Array) -> tuple[Relation, ...]:
    """The features of the largest values, with how often both are active."""
    values[feature] = 0
    best = [int(other) for other in np.argsort(-values, kind="stable")[:_RELATED] if values[other] > 0]
    is_active = np.zeros(len(features), bool)
    is_active[rows] = True
    both = [is_active[features.column(other)[0]].sum() for other in best]
    return tuple(
        Relation(
            other=caption,
            value=float(values[other]),
            together=float(count / max(len(rows), 1)),
            everywhere=float(features.active[other] / len(features)),
        )
        for other, count, caption in zip(best, both, captions(features, best), strict=True)
    )
