"""Queries on a set of features, ranked by `nonneg.search`."""

from collections.abc import Collection, Mapping

import numpy as np

from nonneg.explorer._answers import Contribution, Hit
from nonneg.explorer._feature_set import FeatureSet
from nonneg.payload import Array
from nonneg.search import contributions, rank, samples_with, samples_without

_MOST_CONTRIBUTIONS = 100  # per hit; of dense codes, thousands of features contribute


def query_vector(features: FeatureSet, rows: Collection[int], weights: Mapping[int, float] | None = None) -> Array:
    """Return `(features,)`: the sum of the unit codes of these rows and the given weights."""
    query: Array = np.asarray(features.units[list(rows)].sum(axis=0)).ravel()
    for feature, weight in (weights or {}).items():
        query[feature] += weight
    return query


def candidates(
    features: FeatureSet,
    without: Collection[int] = (),
    skip: Collection[int] = (),
    require: Collection[int] = (),
    label: str | None = None,
) -> Array:
    """Return `(samples,)` booleans: no feature in `without` is active, all in `require` are, the row is not in `skip`.

    With a label, only samples that have it.
    """
    is_candidate = samples_without(features.features, without) & samples_with(features.features, require)
    if label is not None:
        is_candidate &= features.has_label(label)
    is_candidate[list(skip)] = False
    return is_candidate


def search(features: FeatureSet, query: Array, is_candidate: Array, top: int) -> tuple[Hit, ...]:
    """Return the best samples by cosine, each with its largest contributions by absolute value, the largest first.

    Args:
        features: the set to search.
        query: `(features,)` weights.
        is_candidate: `(samples,)` booleans: which samples may be returned.
        top: the maximum number of hits.
    """
    rows, _ = rank(features.features, query, k=top, allowed=is_candidate)
    return tuple(_hit(features, query, int(row)) for row in rows)


def _hit(features: FeatureSet, query: Array, row: int) -> Hit:
    numbers, values = contributions(features.features, query, row)
    order = np.argsort(-np.abs(values), kind="stable")
    listed, others = order[:_MOST_CONTRIBUTIONS], order[_MOST_CONTRIBUTIONS:]
    return Hit(
        sample=features.sample(row),
        score=float(values.sum()),
        contributions=tuple(Contribution(feature=int(numbers[i]), value=float(values[i])) for i in listed),
        rest=float(values[others].sum()),
    )
