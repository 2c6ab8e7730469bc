"""K-means on features, compared with the classes."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from nonneg.codes import unit_rows
from nonneg.errors import InputError
from nonneg.evaluate._statistics import bootstrap_error
from nonneg.features import Features
from nonneg.labels import is_labelled

_STARTS, _DIRECTIONS = 10, 32
_MOST_DRAWN = 50_000  # samples, for the error of the information


class Clustering(NamedTuple):
    """Clusters of features beside the classes.

    Attributes:
        hits: `(labelled samples,)` booleans: which samples are in the cluster of their class.
        information: mutual information of clusters and classes, normalised to lie between 0 and 1.
        error: its standard error over samples, for the same clusters.
    """

    hits: npt.NDArray[np.bool_]
    information: float
    error: float


def clustering(features: Features, seed: int = 0) -> Clustering:
    """Find as many clusters as there are classes, and give each class the cluster that fits best, one to one.

    K-means works on the leading singular vectors of rows of length 1, 32 or as many as classes. Where features are
    finer than classes, two samples of a class may share none; k-means on the features themselves then ends in poor
    local optima, while their leading directions show which features occur together.

    Example:
        >>> features = Features(np.repeat(np.eye(2, dtype=np.float32), 5, axis=0), labels=[0] * 5 + [1] * 5)
        >>> float(clustering(features).hits.mean())
        1.0
    """
    if features.labels is None or not is_labelled(features.labels).any():
        raise InputError("clustering: the features have no labels")
    known = is_labelled(features.labels)
    classes, truth = np.unique(np.asarray(features.labels)[known], return_inverse=True)
    rows = _reduced(unit_rows(features.codes[known]), max(_DIRECTIONS, len(classes)), seed)
    found = KMeans(len(classes), n_init=_STARTS, random_state=seed).fit_predict(rows)
    counts = contingency_matrix(truth, found)
    row, column = linear_sum_assignment(counts, maximize=True)
    cluster_of = np.full(len(classes), -1)
    cluster_of[row] = np.unique(found)[column]

    def information(rows: npt.NDArray[np.int64]) -> float:
        return float(normalized_mutual_info_score(truth[rows], found[rows]))

    error = bootstrap_error(information, len(truth), _MOST_DRAWN)
    return Clustering(cluster_of[truth] == found, information(np.arange(len(truth))), error)


def _reduced(rows: Any, directions: int, seed: int) -> Any:
    """Return rows in their leading directions, scaled to length 1; as they are with fewer features or samples."""
    if min(rows.shape) <= directions:
        return rows
    return unit_rows(TruncatedSVD(directions, random_state=seed).fit_transform(rows))
