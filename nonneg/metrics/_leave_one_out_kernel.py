"""The loops of `_leave_one_out`, compiled. Similarities that a feature does not affect are not recomputed."""

import math
from typing import Any, NamedTuple

import numpy as np

from nonneg.compiled import Lists, compiled
from nonneg.metrics._compiled import compiled_in_any_order

# A float64 of this size has no bits for fractions: adding it rounds, and leaves the integer in the lowest bits.
_ROUNDS = 1.5 * 2.0**52
# ln 2 in two parts; the first ends in enough zero bits to be multiplied by small integers exactly.
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_LARGEST = 700.0
_SERIES = tuple(1 / math.factorial(n) for n in range(11, -1, -1))  # of Taylor, the highest power first
_AT_ONCE = 2**13  # few enough to stay in the fastest cache


class Factors(NamedTuple):
    """For each entry of the lists, the factor that scales its row to length 1 again without it; 1 for no change."""

    rows: Any
    candidates: Any
    inverted: Any


@compiled
def _exponentials(values: Any, wholes: Any) -> None:
    """Replace `values` by their exponentials, to 1e-14; values beyond ±700 are clamped.

    exp(x) = 2^n exp(r) with |r| < 0.35, and exp(r) is its Taylor series. Unlike calls of exp, this loop is
    vectorised, which makes it five times as fast. `wholes` is scratch memory of the same size.
    """
    for i in range(len(values)):
        x = min(max(values[i], -_LARGEST), _LARGEST)
        shifted = x * 1.4426950408889634 + _ROUNDS
        wholes[i] = shifted
        n = shifted - _ROUNDS
        r = (x - n * _LN2_HIGH) - n * _LN2_LOW
        series = 0.0
        for coefficient in _SERIES:
            series = series * r + coefficient
        values[i] = series
    bits, steps = values.view(np.int64), wholes.view(np.int64)
    for i in range(len(values)):
        bits[i] += steps[i] << 52


@compiled_in_any_order
def _sum(values: Any) -> float:
    total = 0.0
    for value in values:
        total += float(value)
    return total


@compiled_in_any_order
def _peak(values: Any) -> float:
    peak = float(values[0])
    for value in values:
        peak = max(peak, float(value))
    return peak


@compiled
def _loss(similarity: Any, own: int, scale: float, work: Any, wholes: Any) -> float:
    """Return −log softmax of `similarity * scale` at `own`."""
    peak = _peak(similarity) * scale
    for i in range(len(similarity)):
        work[i] = similarity[i] * scale - peak
    _exponentials(work, wholes)
    return peak + math.log(_sum(work)) - float(similarity[own]) * scale


@compiled
def _remove(similarity: Any, feature: int, value: float, inverted: Lists, factors: Any, changed: Any) -> None:
    """Fill `changed` with the similarities without a feature whose value in the anchor is `value`."""
    changed[:] = similarity
    for entry in range(inverted.starts[feature], inverted.starts[feature + 1]):
        other = inverted.places[entry]
        changed[other] = (changed[other] - value * inverted.values[entry]) * factors[entry]


@compiled
def _add_exponentials(logits: Any, wholes: Any, places: Any, sums: Any) -> None:
    _exponentials(logits, wholes)
    for i in range(len(logits)):
        sums[places[i]] += logits[i]


@compiled
def gains(
    similarities: Any,
    rows: Lists,
    candidates: Lists,
    inverted: Lists,
    factors: Factors,
    temperature: float,
    first: int,
    found: Any,
) -> None:
    """Fill `found`, `(anchors, features)` zeros so far, for the anchors from `first` on."""
    samples, features = similarities.shape[1], found.shape[1]
    work, wholes, changed, again = np.empty(samples), np.empty(samples), np.empty(samples), np.empty(samples)
    others_changed = bool(np.any(factors.candidates != 1.0))
    room = features + _AT_ONCE
    logits, wholes_of_logits, places = np.empty(room), np.empty(room), np.empty(room, np.int64)
    added, removed, own_factor = np.empty(features), np.empty(features), np.empty(features)
    is_active = np.zeros(features, np.bool_)
    for anchor in range(first, first + len(similarities)):
        similarity, found_here = similarities[anchor - first], found[anchor - first]
        peak = _peak(similarity) / temperature
        loss = _loss(similarity, anchor, 1 / temperature, work, wholes)
        total = _sum(work)  # of the exponentials of logits less `peak`
        is_active[:] = False
        if others_changed:
            for entry in range(rows.starts[anchor], rows.starts[anchor + 1]):
                is_active[rows.places[entry]] = True
            # Removing a feature that the anchor lacks only rescales the rows that have it.
            added[:], removed[:], own_factor[:] = 0.0, 0.0, 1.0
            count = 0
            for other in range(samples):
                if similarity[other] == 0.0:
                    continue
                if count > _AT_ONCE:
                    _add_exponentials(logits[:count], wholes_of_logits, places, added)
                    count = 0
                for entry in range(candidates.starts[other], candidates.starts[other + 1]):
                    feature = candidates.places[entry]
                    if not is_active[feature]:
                        logits[count] = similarity[other] * factors.candidates[entry] / temperature - peak
                        places[count] = feature
                        count += 1
                        removed[feature] += work[other]
                        if other == anchor:
                            own_factor[feature] = factors.candidates[entry]
            _add_exponentials(logits[:count], wholes_of_logits, places, added)
            for feature in range(features):
                if removed[feature] == 0.0:
                    continue
                # A difference of nearly equal numbers would be rounding error, and very large sums overflow: recompute.
                if removed[feature] < 0.999 * total and added[feature] < 1e250:
                    without = math.log(total - removed[feature] + added[feature])
                    found_here[feature] = peak + without - similarity[anchor] * own_factor[feature] / temperature - loss
                else:
                    _remove(similarity, feature, 0.0, inverted, factors.inverted, changed)
                    found_here[feature] = _loss(changed, anchor, 1 / temperature, again, wholes) - loss
        for entry in range(rows.starts[anchor], rows.starts[anchor + 1]):
            feature = rows.places[entry]
            _remove(similarity, feature, rows.values[entry], inverted, factors.inverted, changed)
            found_here[feature] = _loss(changed, anchor, factors.rows[entry] / temperature, work, wholes) - loss
