"""The map of the samples as numbers for the page, which are small enough to send for 100,000 samples."""

from base64 import b64encode

import numpy as np

from nonneg.explorer._answers import MapColours, MapPage
from nonneg.explorer._feature_set import FeatureSet
from nonneg.features import SampleMap
from nonneg.payload import Array

_NONE = 2**16 - 1


def map_page(features: FeatureSet, found: SampleMap) -> MapPage:
    """Describe a map and the labels of its samples."""
    labels = None
    if features.labels is not None:
        given, names = np.asarray(features.features.labels), features.labels.numbers
        places = np.clip(np.searchsorted(names, given), 0, len(names) - 1)
        is_shown = (names[places] == given) & (places < _NONE)  # as many as two bytes hold
        labels = _base64(np.where(is_shown, places, _NONE).astype("<u2"))
    return MapPage(
        method=found.method,
        positions=_base64(np.round(found.positions * _NONE).astype("<u2")),
        label_names=() if features.labels is None else features.labels.names[:_NONE],
        labels=labels,
    )


def map_colours(features: FeatureSet, feature: int) -> MapColours:
    """Return the strength of a feature on each sample, relative to its largest value; negative values count as 0."""
    rows, values = features.column(feature)
    values = np.clip(values, 0, None)
    largest = float(values.max()) if len(values) else 0.0
    shares = np.zeros(len(features), np.uint8)
    shares[rows] = np.ceil(255 * values / largest) if largest else 0
    return MapColours(feature=feature, largest=largest, values=_base64(shares))


def _base64(array: Array) -> str:
    return b64encode(array.tobytes()).decode()
