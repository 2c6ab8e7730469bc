"""The labels of metrics: one per sample; `nonneg.labels` defines which samples are unlabelled."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.labels import label_numbers
from nonneg.metrics._codes import check


def as_labels(labels: Any, samples: int, metric: str, name: str = "labels") -> Tensor:
    """Return `(samples,)` integers on the CPU, numbered from 0; -1 where unlabelled."""
    numbers, _ = label_numbers(_checked(labels, samples, metric, name), f"{metric}: {name}")
    return torch.from_numpy(numbers)


def as_integers(labels: Any, samples: int, metric: str) -> Tensor:
    """Return `(samples,)` integers on the CPU, not renumbered: the numbers mean the same in every batch."""
    given = np.asarray(_checked(labels, samples, metric, "labels"))
    if given.dtype.kind not in "iub":
        raise ValueError(f"{metric}: labels is {given.dtype}, expected integers")
    return torch.from_numpy(given.astype(np.int64))


def labelled(z: Any, labels: Any, metric: str) -> tuple[Any, Tensor, Tensor]:
    """Return the labelled samples, their labels from 0, and `(samples,)` booleans: which samples are labelled."""
    check(z, metric)
    y = as_labels(labels, z.shape[0], metric)
    known = y >= 0
    if bool(known.all()):
        return z, y, known
    kept = known.to(z.device) if isinstance(z, Tensor) else known.numpy()
    return (sp.csr_array(z) if sp.issparse(z) else z)[kept], y[known], known


def _checked(labels: Any, samples: int, metric: str, name: str) -> Any:
    if labels is None:
        raise TypeError(f"{metric}: {name} is None, expected one label per sample")
    given = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else labels
    if np.shape(given) != (samples,):
        raise ValueError(f"{metric}: {name} has shape {np.shape(given)}, expected ({samples},), one label per sample")
    return given
