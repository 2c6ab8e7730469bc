"""Scoring: the one place where samples are ranked by features."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nonneg.explorer._answers import Contribution, Hit
from nonneg.explorer._feature_set import FeatureSet

Array = npt.NDArray[Any]


def weights_like(features: FeatureSet, rows: Collection[int], weights: Mapping[int, float] | None = None) -> Array:
    """`(features,)`: the given weights, and the unit codes of these rows on top."""
    query = np.zeros(features.units.shape[1])
    for feature, weight in (weights or {}).items():
        query[feature] += weight
    for row in rows:
        start, stop = features.units.indptr[row : row + 2]
        query[features.units.indices[start:stop]] += features.units.data[start:stop]
    return query


def allowed(features: FeatureSet, without: Collection[int] = (), skip: Collection[int] = ()) -> Array:
    """`(samples,)` booleans: none of the features in `without` is active, and the row is not among those to skip."""
    kept = np.ones(len(features), bool)
    for feature in without:
        kept[features.column(feature)[0]] = False
    kept[list(skip)] = False
    return kept


def search(features: FeatureSet, query: Array, kept: Array, top: int) -> tuple[Hit, ...]:
    """Samples of the largest score, a weighted sum of their unit codes; only scores above 0, ties by row.

    Args:
        features: to search in.
        query: `(features,)` weights.
        kept: `(samples,)` booleans: which may be found.
        top: how many at most.

    Returns:
        Hits, best first, each with what every feature adds to its score, in float64, largest first.
    """
    scores = np.where(kept, features.units @ query, -np.inf)
    top = min(top, len(scores))
    least = np.partition(scores, len(scores) - top)[len(scores) - top]
    candidates = np.flatnonzero((scores >= least) & (scores > 0))
    order = candidates[np.argsort(-scores[candidates], kind="stable")][:top]
    return tuple(_hit(features, query, int(row)) for row in order)


def _hit(features: FeatureSet, query: Array, row: int) -> Hit:
    start, stop = features.units.indptr[row : row + 2]
    numbers = features.units.indices[start:stop]
    values = query[numbers] * features.units.data[start:stop]
    told = np.flatnonzero(values)
    told = told[np.argsort(-np.abs(values[told]), kind="stable")]
    return Hit(
        sample=features.sample(row),
        score=float(values.sum()),
        contributions=tuple(Contribution(feature=int(numbers[i]), value=float(values[i])) for i in told),
    )
