"""Nearest neighbours as a classifier: no weights, no training."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nonneg.codes import unit_rows
from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.evaluate._probe import labelled, renumbered, require_labels
from nonneg.features import Features

_CHUNK = 1024  # test samples at a time: similarities take chunk x train entries
_ROUNDING = 1e-6  # within which two train samples are as near


def neighbour_hits(
    train: Features, test: Features, k: int = 20, temperature: float = 0.07, device: str | torch.device | None = None
) -> npt.NDArray[np.bool_]:
    """Which labelled test samples their `k` nearest train samples tell right.

    Neighbours by cosine vote with weight exp(cosine / temperature), as is usual for contrastive features. Sparse codes
    are often level: of train samples that are as near as the last one of the k, each has its share of the vote, so
    that their order does not matter. To a sample with an empty code all are as near.

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
    place = choose_device(device)
    x, y = labelled(train, place)
    queries, truth = labelled(test, place)
    truth = renumbered(truth, train, test)
    known, queries = unit_rows(x).float(), unit_rows(queries).float()
    classes, y = torch.unique(y, return_inverse=True)
    hits = []
    for start in range(0, len(queries), _CHUNK):
        votes = _votes(queries[start : start + _CHUNK] @ known.T, y, len(classes), k, temperature)
        hits.append(classes[votes.argmax(1)] == truth[start : start + _CHUNK])
    return torch.cat(hits).cpu().numpy()


def _votes(cosine: Tensor, y: Tensor, classes: int, k: int, temperature: float) -> Tensor:
    """`(queries, classes)` of `(queries, train samples)` cosines and `(train samples,)` classes."""
    k = min(k, cosine.shape[1])
    nearest = cosine.topk(k, dim=1)
    votes = torch.zeros(len(cosine), classes, device=cosine.device)
    votes.scatter_add_(1, y[nearest.indices], ((nearest.values - 1) / temperature).exp())
    last = nearest.values[:, -1:]
    contested = ((cosine >= last - _ROUNDING).sum(1) > k).nonzero().squeeze(1)
    if len(contested):
        cosine, last = cosine[contested], last[contested]
        above, level = cosine > last + _ROUNDING, (cosine - last).abs() <= _ROUNDING
        share = (k - above.sum(1, keepdim=True)) / level.sum(1, keepdim=True)
        weights = ((cosine - 1) / temperature).exp() * (above + share * level)
        votes[contested] = torch.zeros(classes, len(contested), device=votes.device).index_add_(0, y, weights.T).T
    return votes
