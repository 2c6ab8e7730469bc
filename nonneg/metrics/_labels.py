"""Labels as the metrics take them: integers, of which negative ones stand for "unlabelled"."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nonneg.metrics._codes import check


def as_labels(labels: Any, samples: int, metric: str, name: str = "labels") -> Tensor:
    """`(samples,)` integers on the CPU, renumbered 0..classes-1; -1 where unlabelled, that is, negative."""
    y = as_integers(labels, samples, metric, name)
    known = y >= 0
    if not known.any():
        raise ValueError(f"{metric}: {name} are all negative, that is, unlabelled; expected some that are 0 or more")
    renumbered = np.full(samples, -1)
    renumbered[known] = np.unique(y[known], return_inverse=True)[1]
    return torch.from_numpy(renumbered)


def as_integers(labels: Any, samples: int, metric: str, name: str = "labels") -> Any:
    """`(samples,)` integers as they are, a NumPy array of int64."""
    if labels is None:
        raise TypeError(f"{metric}: {name} are missing; it needs one integer label a sample")
    given = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.array(labels)
    if given.dtype.kind not in "iub" or given.shape != (samples,):
        raise ValueError(f"{metric}: {name} are {given.dtype} of shape {given.shape}, expected {samples} integers")
    return given.astype(np.int64)


def labelled(z: Any, labels: Any, metric: str) -> tuple[Any, Tensor, Tensor]:
    """The samples that have a label, their labels 0..classes-1, and `(samples,)` booleans: which ones these are."""
    check(z, metric)
    y = as_labels(labels, z.shape[0], metric)
    known = y >= 0
    if bool(known.all()):
        return z, y, known
    kept = known.to(z.device) if isinstance(z, Tensor) else known.numpy()
    return (sp.csr_array(z) if sp.issparse(z) else z)[kept], y[known], known
