"""Error bars: how much a result would change with other samples or other seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy import stats

from nonneg.codes import active

Array = npt.NDArray[np.float64]
_RESAMPLES = 2_000
_FEW_RESAMPLES = 40  # enough for a standard error
_BLOCK = 4_000_000  # drawn counts in memory at a time


@dataclass(frozen=True)
class Difference:
    """The mean difference of paired values, its 95% confidence interval and the p-value of a two-sided paired t-test.

    Attributes:
        over: what is paired: "seeds" or "samples".
    """

    mean: float
    low: float
    high: float
    p: float
    over: str


def bootstrap_interval(
    values: npt.ArrayLike, level: float = 0.95, resamples: int = _RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean of `(samples,)` values; NaN values are left out.

    Example:
        >>> low, high = bootstrap_interval([0.0, 1.0] * 500)
        >>> 0.46 < low < 0.5 < high < 0.54
        True
    """
    given = np.asarray(values, np.float64)
    given = given[np.isfinite(given)]
    if not len(given):
        return float("nan"), float("nan")
    # Drawing the count of each distinct value is the same as drawing samples, and hits have only two values.
    distinct, counts = np.unique(given, return_counts=True)
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // len(distinct))
    sizes = [min(block, resamples - start) for start in range(0, resamples, block)]
    means = [rng.multinomial(len(given), counts / len(given), size=size) @ distinct / len(given) for size in sizes]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bootstrap_error(
    statistic: Callable[[npt.NDArray[np.int64]], float], samples: int, most: int, seed: int = 0
) -> float:
    """Return the bootstrap standard error of a statistic that is not a mean.

    Args:
        statistic: returns the statistic of the samples with these row numbers, some of which are repeated.
        samples: how many there are.
        most: the largest number of rows that it is called with. If fewer than the samples are drawn, the error is
            scaled to all of them, which suits statistics whose error falls with the root of the number of rows.
        seed: of the resampling.

    Example:
        >>> values = np.random.default_rng(0).normal(size=10_000)
        >>> [round(100 * bootstrap_error(lambda rows: np.median(values[rows]), 10_000, m)) for m in (10_000, 500)]
        [1, 1]
    """
    rng, drawn = np.random.default_rng(seed), min(samples, most)
    values = [statistic(rng.integers(0, samples, drawn)) for _ in range(_FEW_RESAMPLES)]
    known = [value for value in values if np.isfinite(value)]
    return float(np.std(known, ddof=1) * np.sqrt(drawn / samples)) if len(known) > 1 else float("nan")


def consistency_errors(codes: Any, labels: npt.NDArray[np.int64], min_support: int, seed: int = 0) -> Array:
    """Return bootstrap standard errors of class consistency: over all live features, and over those with support.

    A resampled data set counts each sample several times or not at all, and class counts are sums: all resampled
    data sets together are one product with the active entries of each class.

    Args:
        codes: `(samples, features)`.
        labels: `(samples,)` from 0 on.
        min_support: number of active samples that a feature needs.
        seed: of the resampling.

    Example:
        >>> codes = np.eye(2)[np.arange(100) % 2]
        >>> consistency_errors(codes, np.arange(100) % 2, min_support=10)
        array([0., 0.])
    """
    rng, samples = np.random.default_rng(seed), len(labels)
    times = np.stack(
        [np.bincount(rng.integers(0, samples, samples), minlength=samples) for _ in range(_FEW_RESAMPLES)],
        axis=1,
    ).astype(np.float32)
    is_active = sp.csr_array(active(codes)).astype(np.float32)
    most_frequent = support = np.zeros((is_active.shape[1], times.shape[1]), np.float32)
    for label in np.unique(labels):
        counts = is_active[labels == label].T @ times[labels == label]
        most_frequent, support = np.maximum(most_frequent, counts), support + counts
    share = most_frequent / np.maximum(support, 1)
    with np.errstate(invalid="ignore"):  # a resampled data set without any such feature has no mean
        means = [(share * kept).sum(0) / kept.sum(0) for kept in (support > 0, support >= max(min_support, 1))]
    return np.asarray(np.std(means, axis=1, ddof=1))


def paired_difference(first: Sequence[float] | Array, second: Sequence[float] | Array, over: str) -> Difference:
    """Compare paired values, from the same seeds or the same samples: `second - first`.

    Example:
        >>> found = paired_difference([0.80, 0.82, 0.81], [0.82, 0.84, 0.84], over="seeds")
        >>> round(found.mean, 4), found.p < 0.05
        (0.0233, True)
    """
    differences = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    differences = differences[np.isfinite(differences)]
    mean, n = float(differences.mean()) if len(differences) else float("nan"), len(differences)
    error = float(differences.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    if error <= 1e-12 * max(1.0, abs(mean)):  # one pair, or equal differences but for rounding
        return Difference(mean, float("nan"), float("nan"), float("nan"), over)
    margin = float(stats.t.ppf(0.975, n - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, n - 1))
    return Difference(mean, mean - margin, mean + margin, p, over)
