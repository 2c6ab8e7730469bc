"""A feature's page: its samples from strong to weak, its labels and related features."""

import numpy as np

from nonneg.explorer._answers import (
    Band,
    FeatureFigure,
    FeaturePage,
    FeatureTerms,
    Histogram,
    LabelShare,
    Partner,
    Relation,
    Sample,
    Term,
)
from nonneg.explorer._feature_set import FeatureSet
from nonneg.explorer._name_score import name_score
from nonneg.explorer._search import search
from nonneg.payload import Array

_BINS, _STRONGEST, _BAND, _NEAR_MISSES, _RELATED, _LABELS = 30, 18, 9, 9, 6, 12
_TYPICAL = 50  # strongest samples that define which features usually accompany this one
_BANDS = (("strong", 0.75, 1.0), ("medium", 0.5, 0.75), ("weak", 0.25, 0.5), ("weakest", 0.0, 0.25))


def feature_page(features: FeatureSet, feature: int, partner: Partner | None = None) -> FeaturePage:
    """Return everything about one feature; `partner` is the feature of the other set that matches it, if known."""
    rows, values = features.column(feature)
    return FeaturePage(
        row=features.row(feature),
        histogram=_histogram(values, len(features) - len(rows)),
        strongest=features.strongest(feature, _STRONGEST),
        bands=_bands(features, rows, values),
        near_misses=_near_misses(features, feature, rows),
        labels=_labels(features, feature),
        labelled=0 if features.labels is None else int(features.labels.counts[:, [feature]].sum()),
        co_active=_related(features, features.products[feature].copy(), feature, rows),
        similar=_related(features, _profile_cosines(features, feature), feature, rows),
        history=features.names.history(feature),
        name_score=name_score(features, feature, rows),
        figures=_figures(features, feature),
        terms=_terms(features, feature),
        partner=partner,
    )


def _figures(features: FeatureSet, feature: int) -> tuple[FeatureFigure, ...]:
    """What was measured when the data was embedded, for every feature of the model; anything else is left out."""
    given, place, found = features.features.provenance.get("feature_figures"), _place(features, feature), []
    for title, both in given.items() if isinstance(given, dict) else ():
        lists = [both.get(name) if isinstance(both, dict) else None for name in ("values", "chance")]
        numbers = [each[place] for each in lists if isinstance(each, list) and 0 <= place < len(each)]
        if title and len(numbers) == 2 and all(type(number) in (int, float) and 0 <= number <= 1 for number in numbers):
            found.append(FeatureFigure(title=title, value=numbers[0], chance=numbers[1]))
    return tuple(found)


def _terms(features: FeatureSet, feature: int) -> tuple[FeatureTerms, ...]:
    """What sets the feature's samples apart, as the kind of data found when it was embedded, in the same way."""
    given, place, found = features.features.provenance.get("feature_terms"), _place(features, feature), []
    for title, lists in given.items() if isinstance(given, dict) else ():
        rows = lists[place] if isinstance(lists, list) and 0 <= place < len(lists) else None
        rows = [row for row in rows if _is_term(row)] if isinstance(rows, list) else []
        terms = (Term(term=row[0], share=row[1], overall=row[2]) for row in rows[:_LABELS])
        if title and rows:
            found.append(FeatureTerms(title=title, terms=tuple(terms)))
    return tuple(found)


def _is_term(row: object) -> bool:
    if not isinstance(row, list | tuple) or len(row) != 3 or not isinstance(row[0], str):
        return False
    return all(type(share) in (int, float) and 0 <= share <= 1 for share in row[1:])


def _place(features: FeatureSet, feature: int) -> int:
    """The number of a feature in the model."""
    columns = features.features.model_columns
    return feature if columns is None else int(columns[feature])


def _histogram(values: Array, inactive: int) -> Histogram:
    if not len(values):
        return Histogram(edges=(), counts=(), inactive=inactive)
    low = min(float(values.min()), 0.0)
    counts, edges = np.histogram(values.astype(np.float64), _BINS, (low, max(float(values.max()), low + 1e-12)))
    return Histogram(edges=tuple(edges.tolist()), counts=tuple(counts.tolist()), inactive=inactive)


def _bands(features: FeatureSet, rows: Array, values: Array) -> tuple[Band, ...]:
    """Evenly spaced samples from each quarter of the active samples, because the strongest alone can mislead."""
    found = []
    for title, low, high in _BANDS:
        start, stop = round(low * len(rows)), round(high * len(rows))
        if stop > start:
            places = np.unique(np.linspace(start, stop - 1, min(_BAND, stop - start)).round().astype(int))[::-1]
            samples = tuple(features.sample(rows[i], values[i]) for i in places)
            found.append(Band(title=title, low=float(values[start]), high=float(values[stop - 1]), samples=samples))
    return tuple(found)


def _near_misses(features: FeatureSet, feature: int, rows: Array) -> tuple[Sample, ...]:
    """Inactive samples that have the features which usually accompany this one."""
    if not len(rows):
        return ()
    typical = np.asarray(features.units[rows[::-1][:_TYPICAL]].sum(axis=0)).ravel()
    typical[feature] = 0
    is_candidate = np.ones(len(features), bool)
    is_candidate[rows] = False
    return tuple(hit.sample for hit in search(features, typical, is_candidate, _NEAR_MISSES))


def _labels(features: FeatureSet, feature: int) -> tuple[LabelShare, ...]:
    """Labels of the active samples, the most common one first."""
    labels = features.labels
    if labels is None:
        return ()
    active, totals = labels.counts[:, [feature]].toarray().ravel(), labels.totals
    order = np.argsort(-active, kind="stable")[: min(_LABELS, np.count_nonzero(active))]
    return tuple(
        LabelShare(
            label=labels.names[i],
            active=int(active[i]),
            share=float(active[i] / active.sum()),
            overall=float(totals[i] / totals.sum()),
        )
        for i in order
    )


def _profile_cosines(features: FeatureSet, feature: int) -> Array:
    """Cosines between the rows of `products`, leaving out the entries of the two features compared.

    Two features score high if they co-occur with the same other features, even without a sample in common.
    """
    products = features.products
    own, diagonal = products[feature], products.diagonal()
    cross = products @ own - own * own[feature] - own * diagonal  # without the terms of the two features themselves
    squares = features.squared_products
    lengths = squares - diagonal**2 - own**2
    length = squares[feature] - own[feature] ** 2 - own**2
    scale = np.sqrt(np.clip(lengths, 0, None) * np.clip(length, 0, None))
    cosines = np.divide(cross, scale, out=np.zeros_like(cross), where=scale > 1e-6)
    return np.asarray(np.clip(cosines, -1, 1))


def _related(features: FeatureSet, cosines: Array, feature: int, rows: Array) -> tuple[Relation, ...]:
    """The features with the largest cosines above 0, and how often both are active."""
    cosines[feature] = 0
    best = [int(other) for other in np.argsort(-cosines, kind="stable")[:_RELATED] if cosines[other] > 0]
    is_active = np.zeros(len(features), bool)
    is_active[rows] = True
    return tuple(
        Relation(
            other=features.caption(other),
            cosine=float(cosines[other]),
            co_activation=float(is_active[features.column(other)[0]].sum() / max(len(rows), 1)),
        )
        for other in best
    )
