"""One-to-one matching of two sets of features of the same samples."""

from typing import TYPE_CHECKING

import numpy as np

from nonneg.explorer._answers import Comparison, Pair, Partner
from nonneg.explorer._feature_set import FeatureSet

if TYPE_CHECKING:
    from nonneg.evaluate import Matching


def matched(first: FeatureSet, second: FeatureSet) -> "Matching":
    """Match two sets, which can take minutes."""
    from nonneg.evaluate import match_features  # imports torch

    return match_features(first.features, second.features)


def comparison(matching: "Matching", first: FeatureSet, second: FeatureSet) -> Comparison:
    """Describe two matched sets: pairs in descending order of their cosine, then features without a partner."""
    partners, cosine = matching.partners[0], matching.cosine[0]
    matched = set(partners.tolist())
    pairs = [
        Pair(
            first=first.row(feature),
            second=second.row(int(partners[feature])) if partners[feature] >= 0 else None,
            cosine=float(cosine[feature]),
        )
        for feature in matching.ranked().tolist()
    ]
    unmatched = [feature for feature in np.flatnonzero(second.active).tolist() if feature not in matched]
    pairs += [Pair(first=None, second=second.row(feature), cosine=0.0) for feature in unmatched]
    return Comparison(agreement=matching.agreement.value, chance=matching.floor, pairs=tuple(pairs))


def partner_of(matching: "Matching", number: int, feature: int) -> Partner | None:
    """Return the partner of a feature of set `number`, 0 or 1, in the other set, or None without a partner."""
    partners = matching.partners[0]
    first = feature if number == 0 else int(np.argmax(partners == feature))
    second = int(partners[first])
    if second < 0 or feature != (first, second)[number]:
        return None
    return Partner(feature=(second, first)[number], cosine=float(matching.cosine[0][first]))
