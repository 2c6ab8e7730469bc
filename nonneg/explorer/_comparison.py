"""One-to-one matching of two sets of features of the same samples."""

import numpy as np

from nonneg.explorer._answers import Comparison, Pair
from nonneg.explorer._feature_set import FeatureSet


def comparison(first: FeatureSet, second: FeatureSet) -> Comparison:
    """Match two sets: pairs in descending order of their cosine, followed by features without a partner."""
    from nonneg.evaluate import match_features  # imports torch

    matching = match_features(first.features, second.features)
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
