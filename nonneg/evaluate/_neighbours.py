"""Nearest neighbours as a classifier, without training."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nonneg.codes import unit_rows
from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.evaluate._probe import labelled, labels_as_in, require_labels
from nonneg.features import Features

_CHUNK = 1024  # test samples per block: similarities take _CHUNK × train entries
_ROUNDING = 1e-6  # train samples whose cosines differ by less are equally near


def neighbour_hits(
    train: Features, test: Features, k: int = 20, temperature: float = 0.07, device: str | torch.device | None = None
) -> npt.NDArray[np.bool_]:
    """Return which labelled test samples are predicted correctly by their `k` nearest train samples.

    Neighbours by cosine vote with weight exp(cosine / temperature), as is usual for contrastive features. Sparse codes
    often tie: train samples that are as near as the k-th neighbour share its vote, so that their order does not
    matter. All train samples are equally near to an empty code.

    Args:
        train, test: features with labels.
        k: number of neighbours that vote; all of `train` if it is smaller.
        temperature: the smaller it is, the more the nearest neighbours count.
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
    truth = labels_as_in(train, test, truth)
    known, queries = unit_rows(x).float(), unit_rows(queries).float()
    classes, y = torch.unique(y, return_inverse=True)
    hits = []
    for start in range(0, len(queries), _CHUNK):
        votes = _votes(queries[start : start + _CHUNK] @ known.T, y, len(classes), k, temperature)
        hits.append(classes[votes.argmax(1)] == truth[start : start + _CHUNK])
    return torch.cat(hits).cpu().numpy()


def _votes(cosine: Tensor, y: Tensor, classes: int, k: int, temperature: float) -> Tensor:
    """Return votes `(queries, classes)` from cosines `(queries, train samples)` and classes `(train samples,)`."""
    k = min(k, cosine.shape[1])
    nearest = cosine.topk(k, dim=1)
    votes = torch.zeros(len(cosine), classes, device=cosine.device)
    votes.scatter_add_(1, y[nearest.indices], ((nearest.values - 1) / temperature).exp())
    last = nearest.values[:, -1:]
    tied = ((cosine >= last - _ROUNDING).sum(1) > k).nonzero().squeeze(1)
    if len(tied):
        cosine, last = cosine[tied], last[tied]
        above, level = cosine > last + _ROUNDING, (cosine - last).abs() <= _ROUNDING
        share = (k - above.sum(1, keepdim=True)) / level.sum(1, keepdim=True)
        weights = ((cosine - 1) / temperature).exp() * (above + share * level)
        votes[tied] = torch.zeros(classes, len(tied), device=votes.device).index_add_(0, y, weights.T).T
    return votes
