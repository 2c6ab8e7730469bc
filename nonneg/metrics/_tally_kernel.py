"""The counting loop of `_tally`, compiled."""

import math
from typing import Any

import numpy as np

from nonneg.compiled import compiled


@compiled
def count(
    starts: Any, samples: Any, cells: Any, classes: int, first: int, last: int, commonest: Any, entropy: Any
) -> None:
    """Fill `commonest`, `(features, labellings)` zeros so far, and `entropy` for features `first` to `last`.

    `samples[starts[feature] : starts[feature + 1]]` are the samples that a feature is active on. `cells[sample]` holds,
    for each labelling, the cell to count its class in: labelling x classes + class.
    """
    labellings = cells.shape[1]
    counts = np.zeros(labellings * classes, np.int32)
    for feature in range(first, last):
        entries = samples[starts[feature] : starts[feature + 1]]
        support, best = len(entries), commonest[feature]
        for sample in entries:
            for cell in cells[sample]:
                counts[cell] += 1
        nats = 0.0
        if classes <= support:
            for seen in counts[:classes]:
                if seen:
                    nats -= seen / support * math.log(seen / support)
            for labelling in range(labellings):
                best[labelling] = counts[labelling * classes : (labelling + 1) * classes].max()
            counts[:] = 0
        else:
            # There are more classes than active samples: visit only the classes that occur, each once.
            for sample in entries:
                own = cells[sample]
                for labelling in range(labellings):
                    seen = counts[own[labelling]]
                    if seen:
                        counts[own[labelling]] = 0
                        best[labelling] = max(best[labelling], seen)
                        if labelling == 0:
                            nats -= seen / support * math.log(seen / support)
        if support:
            entropy[feature] = nats
