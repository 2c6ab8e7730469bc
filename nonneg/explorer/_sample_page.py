"""A sample's page: its active features, its neighbours and the prediction of a classifier."""

from collections.abc import Collection

import numpy as np

from nonneg.codes import active_units, dense
from nonneg.explorer._answers import Encoded, Part, SamplePage, SearchResult
from nonneg.explorer._feature_set import FeatureSet
from nonneg.explorer._glass import GlassBox
from nonneg.explorer._requests import Query
from nonneg.explorer._search import candidates, query_vector, search
from nonneg.payload import Array

_NEIGHBOURS, _TEXT = 12, 20_000


def sample_page(
    features: FeatureSet, row: int, off: Collection[int] = (), glass_box: GlassBox | None = None
) -> SamplePage:
    """Describe a sample. Its neighbours and prediction are computed without the features in `off`."""
    unit = query_vector(features, [row])
    query = unit.copy()
    query[list(off)] = 0
    text = features.features.text(row)
    values = dense(features.features.codes[[row]])[0]
    return SamplePage(
        sample=features.sample(row),
        text=None if text is None else text[:_TEXT],
        parts=_parts(features, unit, values),
        off=tuple(sorted(off)),
        neighbours=search(features, query, candidates(features, skip=[row]), _NEIGHBOURS),
        prediction=None if glass_box is None else glass_box.prediction(features, query),
    )


def encoded(features: FeatureSet, code: Array, picture: bytes | None = None) -> Encoded:
    """Describe a new input with this code `(features,)`; `picture` is an encoded image, for images."""
    unit = active_units(code[None]).toarray()[0]
    return Encoded(
        warning=features.range.problem(code, picture),
        parts=_parts(features, unit, code),
        neighbours=search(features, unit, candidates(features), _NEIGHBOURS),
    )


def _parts(features: FeatureSet, unit: Array, values: Array) -> tuple[Part, ...]:
    """Active features in descending order of their share."""
    order = np.argsort(-(unit**2), kind="stable")[: np.count_nonzero(unit)]
    return tuple(
        Part(caption=features.caption(int(i)), activation=float(values[i]), share=float(unit[i] ** 2)) for i in order
    )


def search_result(features: FeatureSet, query: Query) -> SearchResult:
    """Answer a composed query."""
    weights = query_vector(features, query.like, {each.feature: each.weight for each in query.features})
    is_candidate = candidates(features, query.without, query.like, query.require, query.label)
    named = dict.fromkeys([*(each.feature for each in query.features), *query.without, *query.require])
    named.update(dict.fromkeys(np.argsort(-np.abs(weights), kind="stable")[: np.count_nonzero(weights)].tolist()))
    return SearchResult(
        query=query,
        captions=tuple(features.caption(feature) for feature in named),
        like=tuple(features.sample(row) for row in query.like),
        candidates=int(is_candidate.sum()),
        hits=search(features, weights, is_candidate, query.top),
    )
