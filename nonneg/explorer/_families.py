"""Families of features: near-duplicates that are active on the same samples."""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from nonneg.payload import Array

_MOST_FEATURES = 5_000  # above this, the distances of all pairs take too much memory
_SHARED_WORD = 0.2  # a word that two names share counts like this cosine
_LEAST_SIMILARITY = 0.3  # of features in one family, on average
_WORDS = 2  # in the name of a family
_HINTS = ("mostly", "often")  # words of titles that come from labels: "mostly ship"


def families(products: Array, live: Array, titles: Mapping[int, str]) -> list[tuple[str, tuple[int, ...]]]:
    """Group features by average linkage; return each family's name and features, the largest family first.

    The similarity of two features is their cosine over the samples, plus 0.2 if their names share a word.

    Args:
        products: `(features, features)` cosines.
        live: the features to group.
        titles: names of features.

    Example:
        >>> cosines = np.array([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1.0]])
        >>> families(cosines, np.arange(3), {0: "red car", 1: "car, blue"})
        [('car', (0, 1))]
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    if not 2 <= len(live) <= _MOST_FEATURES:
        return []
    words = [_words(titles.get(int(feature), "")) for feature in live]
    similarity = products[np.ix_(live, live)].astype(np.float64)
    places: dict[str, list[int]] = {}
    for place, some in enumerate(words):
        for word in some:
            places.setdefault(word, []).append(place)
    shared = np.zeros(similarity.shape, bool)
    for sharing in places.values():
        shared[np.ix_(sharing, sharing)] = True
    distance = np.clip(1 - similarity - _SHARED_WORD * shared, 0, None)
    np.fill_diagonal(distance, 0)
    numbers = fcluster(linkage(squareform(distance, checks=False), "average"), 1 - _LEAST_SIMILARITY, "distance")
    found = []
    for number in range(1, int(numbers.max()) + 1):
        members = np.flatnonzero(numbers == number)
        if len(members) > 1:
            name = _name([words[i] for i in members], titles, [int(live[i]) for i in members])
            found.append((name, tuple(int(live[i]) for i in members)))
    return sorted(found, key=lambda family: (-len(family[1]), family[1]))


def _words(title: str) -> list[str]:
    words = dict.fromkeys(title.replace(",", " ").split())
    return [word for word in words if len(word) > 2 and word not in _HINTS]


def _name(words: list[list[str]], titles: Mapping[int, str], members: list[int]) -> str:
    """The words that most members share, or else the name of the first one."""
    counts = Counter(word for some in words for word in some)
    common = [word for word, count in counts.most_common(_WORDS) if count > 1]
    return ", ".join(common) or titles.get(members[0], f"feature {members[0]}")
