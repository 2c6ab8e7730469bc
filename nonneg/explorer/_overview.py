"""The first page: a set of features at a glance, and one sample taken apart as an example."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nonneg.explorer._answers import Figures, Kind, Overview, SetOverview
from nonneg.explorer._feature_set import FeatureSet
from nonneg.explorer._sample_page import sample_page

_STRIPS = 8
_EDGES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 1.0)
_CANDIDATES = 2_000  # samples among which the example is chosen
_RARE = 0.03  # share of the samples below which a feature is a poor example
_ALONE_SAMPLES = 256


def overview(sets: Sequence[FeatureSet], can_write: bool, can_encode: Sequence[Kind | None]) -> Overview:
    """All sets side by side; of the same samples, the same one is the example."""
    rows = [example(each) for each in sets]
    same = len(sets) == 2 and _ids(sets[0]) == _ids(sets[1])
    if same:
        fewest = min(range(len(sets)), key=lambda number: sets[number].active.sum())
        rows = [rows[fewest]] * len(sets)
    told = zip(sets, rows, can_encode, strict=True)
    described = (_of_set(each, row, can_write and each.names.can_change, can) for each, row, can in told)
    return Overview(sets=tuple(described), same_samples=same)


def _ids(features: FeatureSet) -> Any:
    """The samples' ids in order; how many there are where they have none."""
    samples = features.features.samples
    return samples["id"].to_pylist() if "id" in samples.column_names else len(features)


def _of_set(features: FeatureSet, row: int, can_name: bool, can_encode: Kind | None) -> SetOverview:
    frequency = features.active / len(features)
    ranked = features.by_activation()
    # From the middle of equal parts: neither the best nor the worst.
    shown = min(_STRIPS, len(ranked))
    spread = [ranked[int((place + 0.5) * len(ranked) / shown)] for place in range(shown)]
    live = int((features.active > 0).sum())
    return SetOverview(
        name=features.name,
        key=features.key,
        kind=features.features.kind,
        samples=len(features),
        features=features.units.shape[1],
        labels=0 if features.labels is None else len(features.labels.names),
        active_mean=float(features.active.sum() / len(features)),
        live=live,
        dead=len(frequency) - live,
        dense=int((frequency > 0.5).sum()),
        spread_edges=_EDGES,
        spread=tuple(np.histogram(frequency[frequency > 0], _EDGES)[0].tolist()),
        has_negative=bool((features.units.data < 0).any()),
        is_settled=features.is_settled,
        can_name=can_name,
        can_encode=can_encode,
        strongest_features=tuple(features.row(feature) for feature in ranked[:_STRIPS]),
        usual_features=tuple(features.row(feature) for feature in spread),
        example=sample_page(features, row),
    )


def example(features: FeatureSet) -> int:
    """A sample that is easy to explain: a few features make it up, none of them nearly all of it."""
    rows = np.unique(np.linspace(0, len(features) - 1, min(len(features), _CANDIDATES)).round().astype(int))
    some = features.units[rows]
    counts = np.diff(some.indptr)
    of_entry = np.repeat(np.arange(len(rows)), counts)
    shares = some.data**2
    # A feature explains by its consistency, where it is no rarity; one that makes up more than half explains no sum.
    worth = np.ones(some.shape[1]) if features.labels is None else np.nan_to_num(features.labels.share)
    worth = worth * np.minimum(1, features.active / (_RARE * len(features)))
    told = np.minimum(shares, 0.5) * worth[some.indices]
    return int(rows[np.argmax(np.bincount(of_entry, told, minlength=len(rows)) - 0.001 * counts)])


def figures(features: FeatureSet) -> Figures:
    """What takes seconds: consistency beside chance, and what each feature says that no other does."""
    from nonneg import metrics  # brings torch with it

    consistency = chance = None
    if features.labels is not None:
        found = metrics.class_consistency(features.units, features.features.labels)
        if found.n_supported:
            consistency, chance = found.supported, found.floor
    rows = np.sort(np.random.default_rng(0).permutation(len(features))[:_ALONE_SAMPLES])
    live = np.flatnonzero(features.active)
    k, means = np.zeros(0, int), np.zeros(0)
    if len(rows) > 1 and len(live):
        some = features.units[rows][:, live]
        gains = np.sort(metrics.sepin(some, some, k=[1]).per_feature.numpy())[::-1]
        k = np.unique(np.geomspace(1, len(gains), 40).round().astype(int))
        means = np.cumsum(gains)[k - 1] / k
    return Figures(
        consistency=consistency,
        chance=chance,
        alone_k=tuple(k.tolist()),
        alone=tuple(means.tolist()),
        alone_samples=len(rows),
    )
