"""Two sets of features of the same samples, matched to each other: what stayed, what was lost, what is new."""

import numpy as np

from nonneg.explorer._answers import Comparison, Pair
from nonneg.explorer._feature_set import FeatureSet


def comparison(first: FeatureSet, second: FeatureSet) -> Comparison:
    """Match the features of both one to one, most alike first, then those without a partner."""
    from nonneg.evaluate import match_features  # brings torch with it

    matching = match_features(first.features, second.features)
    partners, cosine = matching.partners[0], matching.cosine[0]
    taken = set(partners.tolist())
    pairs = [
        Pair(
            first=first.row(feature),
            second=second.row(int(partners[feature])) if partners[feature] >= 0 else None,
            cosine=float(cosine[feature]),
        )
        for feature in matching.ranked().tolist()
    ]
    left = [feature for feature in np.flatnonzero(second.active).tolist() if feature not in taken]
    pairs += [Pair(first=None, second=second.row(feature), cosine=0.0) for feature in left]
    return Comparison(agreement=matching.agreement.value, chance=matching.floor, pairs=tuple(pairs))
