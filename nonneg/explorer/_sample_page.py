"""A sample's page: the features it is made of, and its neighbours by the features they share."""

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from nonneg.codes import active_units
from nonneg.explorer._answers import Encoded, Part, Query, SamplePage, SearchResult
from nonneg.explorer._feature_set import FeatureSet
from nonneg.explorer._glass import GlassBox
from nonneg.explorer._search import allowed, search, weights_like

Array = npt.NDArray[Any]
_NEIGHBOURS, _TEXT = 12, 20_000


def sample_page(
    features: FeatureSet, row: int, off: Collection[int] = (), glass_box: GlassBox | None = None
) -> SamplePage:
    """A sample, its parts, its neighbours without the features in `off`, and what a classifier makes of it then."""
    query = weights_like(features, [row])
    query[list(off)] = 0
    text = features.features.text(row)
    codes = features.features.codes[[row]]
    values = (codes.toarray() if features.features.is_sparse else codes)[0]
    return SamplePage(
        sample=features.sample(row),
        text=None if text is None else text[:_TEXT],
        parts=parts(features, weights_like(features, [row]), values),
        off=tuple(sorted(off)),
        neighbours=search(features, query, allowed(features, skip=[row]), _NEIGHBOURS),
        prediction=None if glass_box is None else glass_box.prediction(features, query),
    )


def encoded(features: FeatureSet, codes: Array) -> Encoded:
    """What a new input with these codes `(features,)` is made of."""
    unit = np.asarray(active_units(codes[None]).toarray()).ravel()
    return Encoded(
        parts=parts(features, unit, codes), neighbours=search(features, unit, allowed(features), _NEIGHBOURS)
    )


def parts(features: FeatureSet, unit: Array, values: Array) -> tuple[Part, ...]:
    """Active features, the largest share first."""
    order = np.argsort(-(unit**2), kind="stable")[: np.count_nonzero(unit)]
    return tuple(
        Part(caption=features.caption(int(i)), activation=float(values[i]), share=float(unit[i] ** 2)) for i in order
    )


def search_result(features: FeatureSet, query: Query) -> SearchResult:
    """Answer a composed query."""
    weights = weights_like(features, query.like, {each.feature: each.weight for each in query.features})
    kept = allowed(features, query.without, query.like)
    named = dict.fromkeys([*(each.feature for each in query.features), *query.without])
    named.update(dict.fromkeys(np.argsort(-np.abs(weights), kind="stable")[: np.count_nonzero(weights)].tolist()))
    return SearchResult(
        query=query,
        captions=tuple(features.caption(int(feature)) for feature in named),
        like=tuple(features.sample(row) for row in query.like),
        candidates=int(kept.sum()),
        hits=search(features, weights, kept, query.top),
    )
