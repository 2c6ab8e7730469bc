"""Families of features: near-duplicates that are active on the same samples."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from nonneg.payload import Array

_MOST_FEATURES = 5_000  # above this, the distances of all pairs take too much memory
_SHARED_WORD = 0.2  # a word that two names share counts like this cosine
_LEAST_SIMILARITY = 0.3  # of features in one family, on average
_WORDS = 2  # in the name of a family
_HINTS = ("mostly", "often", "label")  # words of titles that come from labels: "mostly ship", "mostly label 3"


def families(products: Array, live: Array, hints: Mapping[int, str]) -> list[tuple[int, ...]]:
    """Group features by average linkage; return the features of each family, the largest family first.

    The similarity of two features is their cosine over the samples, plus 0.2 if their hints share a word.

    Args:
        products: `(features, features)` cosines.
        live: the features to group.
        hints: suggested names of features.

    Example:
        >>> cosines = np.array([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1.0]])
        >>> families(cosines, np.arange(3), {0: "red car", 1: "car, blue"})
        [(0, 1)]
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    if not 2 <= len(live) <= _MOST_FEATURES:
        return []
    places: dict[str, list[int]] = {}
    for place, feature in enumerate(live):
        for word in _words(hints.get(int(feature), "")):
            places.setdefault(word, []).append(place)
    shared = np.zeros((len(live),) * 2, bool)
    for sharing in places.values():
        shared[np.ix_(sharing, sharing)] = True
    # In place: with 5,000 features, each of these matrices takes 100 MB.
    distance = products[np.ix_(live, live)].astype(np.float32, copy=False)
    np.subtract(1, distance, out=distance)
    np.subtract(distance, _SHARED_WORD, out=distance, where=shared)
    np.clip(distance, 0, None, out=distance)
    np.fill_diagonal(distance, 0)
    pairs = squareform(distance, checks=False)
    del distance, shared
    numbers = fcluster(linkage(pairs, "average"), 1 - _LEAST_SIMILARITY, "distance")
    groups = (live[numbers == number].tolist() for number in range(1, int(numbers.max()) + 1))
    return sorted((tuple(group) for group in groups if len(group) > 1), key=lambda group: (-len(group), group))


def family_name(members: Sequence[int], titles: Mapping[int, str]) -> str:
    """Return the words that most members' names share, or else the name of the first member.

    Example:
        >>> family_name((0, 1), {0: "red car", 1: "car, blue"})
        'car'
    """
    counts = Counter(word for feature in members for word in _words(titles.get(feature, "")))
    common = [word for word, count in counts.most_common(_WORDS) if count > 1]
    return ", ".join(common) or titles.get(members[0], f"feature {members[0]}")


def _words(title: str) -> list[str]:
    words = dict.fromkeys(title.replace(",", " ").split())
    return [word for word in words if len(word) > 2 and word not in _HINTS]
