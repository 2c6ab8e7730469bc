"""Nearest neighbours as a classifier: no weights, no training."""

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from nonneg.errors import InputError
from nonneg.evaluate._probe import labelled, renumbered, require_labels
from nonneg.features import Features

_CHUNK = 1024  # test samples at a time: similarities take chunk x train entries


def neighbour_hits(
    train: Features, test: Features, k: int = 20, temperature: float = 0.07, device: str | torch.device | None = None
) -> npt.NDArray[np.bool_]:
    """Which labelled test samples their `k` nearest train samples tell right; one with an empty code never is.

    Neighbours by cosine vote with weight exp(cosine / temperature), as is usual for contrastive features.

    Args:
        train, test: features with labels.
        k: neighbours that vote; all of `train` if it is smaller.
        temperature: how much more the nearer ones count.
        device: where to compute; None is a CUDA device if there is one.

    Example:
        >>> features = Features(np.eye(2, dtype=np.float32), labels=[0, 1])
        >>> neighbour_hits(features, features, k=1)
        array([ True,  True])
    """
    require_labels(train, "train", "neighbour_hits")
    require_labels(test, "test", "neighbour_hits")
    if k < 1:
        raise InputError(f"k is {k}, expected a whole number, at least 1")
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    x, y = labelled(train, place)
    queries, truth = labelled(test, place)
    truth = renumbered(truth, train, test)
    known, queries = F.normalize(x.float()), F.normalize(queries.float())
    is_empty = ~queries.any(1)  # as near to all
    classes, y = torch.unique(y, return_inverse=True)
    hits = []
    for start in range(0, len(queries), _CHUNK):
        nearest = (queries[start : start + _CHUNK] @ known.T).topk(min(k, len(known)), dim=1)
        votes = torch.zeros(len(nearest.values), len(classes), device=place)
        votes.scatter_add_(1, y[nearest.indices], ((nearest.values - 1) / temperature).exp())
        hits.append(classes[votes.argmax(1)] == truth[start : start + _CHUNK])
    return (torch.cat(hits) & ~is_empty).cpu().numpy()
