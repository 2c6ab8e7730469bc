"""The counting loops of `_tally`, compiled."""

import math
from typing import Any

import numpy as np

from nonneg.compiled import compiled


@compiled
def by_feature(starts: Any, columns: Any, values: Any, places: Any, features: int, epsilon: float) -> Any:
    """Active entries sorted by feature: `(features + 1,)` starts, and for each entry the place of its sample.

    Samples whose place is negative are left out. Lengths are taken in float64, where squares of
    float32 numbers neither overflow nor vanish.
    """
    samples = len(starts) - 1
    thresholds = np.empty(samples)
    found = np.zeros(features + 1, np.int64)
    for sample in range(samples):
        squares = 0.0
        for entry in range(starts[sample], starts[sample + 1]):
            squares += np.float64(values[entry]) ** 2
        thresholds[sample] = epsilon * math.sqrt(squares)
        if places[sample] >= 0:
            for entry in range(starts[sample], starts[sample + 1]):
                found[columns[entry] + 1] += abs(values[entry]) > thresholds[sample]
    found = np.cumsum(found)
    free = found[:-1].copy()
    ordered = np.empty(found[-1], np.uint32)
    for sample in range(samples):
        if places[sample] >= 0:
            for entry in range(starts[sample], starts[sample + 1]):
                if abs(values[entry]) > thresholds[sample]:
                    ordered[free[columns[entry]]] = places[sample]
                    free[columns[entry]] += 1
    return found, ordered


@compiled
def count(
    starts: Any, samples: Any, cells: Any, classes: int, first: int, last: int, commonest: Any, entropy: Any
) -> None:
    """Fill `commonest` `(features, labellings)`, zeros so far, and `entropy` of features `first` to `last`.

    `cells[sample]` has for each labelling where to count its class: labelling x classes + class.
    """
    labellings = cells.shape[1]
    counts = np.zeros(labellings * classes, np.int32)
    for feature in range(first, last):
        entries = samples[starts[feature] : starts[feature + 1]]
        support, best = len(entries), commonest[feature]
        for sample in entries:
            for cell in cells[sample]:
                counts[cell] += 1
        disorder = 0.0
        if classes <= support:
            for met in counts[:classes]:
                if met:
                    disorder -= met / support * math.log(met / support)
            for labelling in range(labellings):
                best[labelling] = counts[labelling * classes : (labelling + 1) * classes].max()
            counts[:] = 0
        else:
            # Far more classes than active samples: those that were met, each once.
            for sample in entries:
                own = cells[sample]
                for labelling in range(labellings):
                    met = counts[own[labelling]]
                    if met:
                        counts[own[labelling]] = 0
                        best[labelling] = max(best[labelling], met)
                        if labelling == 0:
                            disorder -= met / support * math.log(met / support)
        if support:
            entropy[feature] = disorder
