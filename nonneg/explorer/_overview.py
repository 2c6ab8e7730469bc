"""The overview page: a summary of each set of features, with one sample as an example."""

from collections.abc import Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from nonneg.explorer._answers import Figures, Overview, SetOverview
from nonneg.explorer._feature_set import FeatureSet
from nonneg.explorer._sample_page import sample_page

_STRIPS = 8
_FREQUENCY_EDGES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 1.0)
_CANDIDATES = 2_000  # samples from which the example is chosen
_RARE = 0.03  # features active on a smaller share of the samples make poor examples
_SEPIN_SAMPLES = 256


def overview(sets: Sequence[FeatureSet], can_write: bool) -> Overview:
    """Summarise all sets. Two sets of the same samples share one example."""
    rows = [_example(each) for each in sets]
    is_same = len(sets) == 2 and _ids(sets[0]) == _ids(sets[1])
    if is_same:
        sparsest = min(range(len(sets)), key=lambda number: sets[number].active.sum())
        rows = [rows[sparsest]] * len(sets)
    summaries = (_summary(each, row, can_write and each.names.can_change) for each, row in zip(sets, rows, strict=True))
    return Overview(sets=tuple(summaries), same_samples=is_same)


def _ids(features: FeatureSet) -> Any:
    """The samples' ids in order, or the number of samples if they have none."""
    samples = features.features.samples
    return samples["id"] if "id" in samples.column_names else len(features)


def _summary(features: FeatureSet, row: int, can_name: bool) -> SetOverview:
    frequency = features.active / len(features)
    ranked = features.features.ranked()
    shown = min(_STRIPS, len(ranked))
    # The middle of equal parts of the ranking, so that neither the best nor the worst are chosen.
    spread = [ranked[int((place + 0.5) * len(ranked) / shown)] for place in range(shown)]
    live = int((features.active > 0).sum())
    return SetOverview(
        name=features.name,
        source=_source(features),
        key=features.key,
        kind=features.features.kind,
        legend=features.features.legend,
        has_media=features.features.has_media,
        samples=len(features),
        features=len(frequency),
        label_names=() if features.labels is None else features.labels.names,
        labels=0 if features.labels is None else len(features.labels.names),
        active_mean=float(features.active.sum() / len(features)),
        live=live,
        dead=len(frequency) - live,
        dense=int((frequency > 0.5).sum()),
        frequency_edges=_FREQUENCY_EDGES,
        frequency_counts=tuple(np.histogram(frequency[frequency > 0], _FREQUENCY_EDGES)[0].tolist()),
        has_negative=bool((features.units.data < 0).any()),
        is_settled=features.is_settled,
        can_name=can_name,
        can_encode=features.input_kind,
        strongest_features=tuple(features.row(feature) for feature in ranked[:_STRIPS]),
        spread_features=tuple(features.row(feature) for feature in spread),
        example=sample_page(features, row),
    )


def _source(features: FeatureSet) -> str:
    """Which model and data the features come from, as far as they record it."""
    known = features.features.provenance
    model, data = known.get("sentence_model") or known.get("model"), known.get("source", known.get("data"))
    model = model.get("encoder") if isinstance(model, dict) else model
    parts = {"model": model, "data": data}
    return ", ".join(f"{name} {_last_part(part)}" for name, part in parts.items() if isinstance(part, str) and part)


def _last_part(name: str) -> str:
    """The name of a file without its folders if it is an absolute path, which would say where its owner keeps it."""
    is_absolute = any(kind(name).is_absolute() for kind in (PurePosixPath, PureWindowsPath))
    return PureWindowsPath(name).name if is_absolute else name  # it reads both kinds of paths


def _example(features: FeatureSet) -> int:
    """Choose a sample that is easy to explain: a few features make up most of it, none of them nearly all of it."""
    rows = np.unique(np.linspace(0, len(features) - 1, min(len(features), _CANDIDATES)).round().astype(int))
    some = features.units[rows]
    counts = np.diff(some.indptr)
    shares = some.data**2
    # Consistent features explain best unless they are rare; a share above one half does not illustrate a sum.
    worth = np.ones(some.shape[1]) if features.labels is None else np.nan_to_num(features.labels.share)
    worth = worth * np.minimum(1, features.active / (_RARE * len(features)))
    explained = np.minimum(shares, 0.5) * worth[some.indices]
    entry_rows = np.repeat(np.arange(len(rows)), counts)
    return int(rows[np.argmax(np.bincount(entry_rows, explained, minlength=len(rows)) - 0.001 * counts)])


def figures(features: FeatureSet) -> Figures:
    """Compute class consistency with its chance level, and SEPIN."""
    from nonneg import metrics  # imports torch

    consistency = chance = None
    if features.labels is not None:
        found = metrics.class_consistency(features.units, features.features.labels)
        if found.n_supported:
            consistency, chance = found.supported, found.floor
    rows = np.sort(np.random.default_rng(0).permutation(len(features))[:_SEPIN_SAMPLES])
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
        sepin_k=tuple(k.tolist()),
        sepin=tuple(means.tolist()),
    )
