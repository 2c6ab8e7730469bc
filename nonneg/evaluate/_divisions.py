"""The probe of the literature on graphs: few labels, rows of length 1, a mean over random splits or a published one."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from nonneg.codes import unit_rows
from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.evaluate._logistic import Logistic, fit_problems
from nonneg.evaluate._probe import labelled, labels_as_in, require_labels
from nonneg.features import Features
from nonneg.labels import is_labelled

_STRENGTHS = tuple(4.0**power for power in range(-1, 7))  # rows of length 1 need weaker regularisation than usual
_SHARE = 0.1  # for fitting, and as much for choosing the strength; the rest is for evaluation
_BYTES = 2**28  # of training rows in float64 that are fitted at once
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SplitProbes:
    """Probes on several divisions of the same samples.

    Attributes:
        accuracies: `(splits,)`, on the samples for evaluation.
        validation: `(splits,)`, on the samples for choosing the strength.
    """

    accuracies: npt.NDArray[np.float64]
    validation: npt.NDArray[np.float64]


def pooled(train: Features, test: Features) -> Features:
    """Return the labelled samples of both, to divide them in other ways."""
    parts = [labelled(features, torch.device("cpu")) for features in (train, test)]
    labels = torch.cat((parts[0][1], labels_as_in(train, test, parts[1][1])))
    codes = torch.cat([codes for codes, _ in parts])
    return Features(codes.numpy(), labels=labels.numpy(), label_names=train.label_names)


def random_splits(features: Features, splits: int = 20, seed: int = 0) -> SplitProbes:
    """Fit logistic regression on a random tenth of the labelled samples, choose its strength on another, test on 80%.

    Rows are scaled to length 1. This is the protocol of GRACE, GCA and BGRL for nodes of graphs.

    Args:
        features: with labels; unlabelled samples are left out.
        splits: number of random divisions.
        seed: decides them, so that all features of the same samples are divided alike.

    Example:
        >>> labels = np.arange(100) % 2
        >>> random_splits(Features(np.eye(2, dtype=np.float32)[labels], labels=labels)).accuracies.mean()
        np.float64(1.0)
    """
    require_labels(features, "given", "random_splits")
    count = int(is_labelled(np.asarray(features.labels)).sum())
    tenth = round(_SHARE * count)
    if tenth < 2:
        raise InputError(f"random_splits: {count} samples are labelled, expected at least 15")
    rng = np.random.default_rng(seed)
    orders = (rng.permutation(count) for _ in range(splits))
    return _probes(features, [tuple(np.split(order, [tenth, 2 * tenth])) for order in orders])


def published_split(features: Features, split: npt.NDArray[np.int64]) -> SplitProbes:
    """Do the same on one given division.

    Args:
        features: with labels; unlabelled samples are left out.
        split: `(samples,)`, 0 for fitting, 1 for choosing the strength, 2 for evaluation, -1 for none.
    """
    require_labels(features, "given", "published_split")
    of_labelled = np.asarray(split)[is_labelled(np.asarray(features.labels))]
    parts = tuple(np.flatnonzero(of_labelled == part) for part in range(3))
    if not all(map(len, parts)):
        raise InputError("published_split: the split has a part without labelled samples, expected some in each")
    return _probes(features, [parts])


def _probes(features: Features, divisions: list[tuple[Rows, ...]]) -> SplitProbes:
    x, y = labelled(features, choose_device())
    x, (known, y) = unit_rows(x), torch.unique(y, return_inverse=True)
    side_by_side = max(1, _BYTES // (8 * len(divisions[0][0]) * x.shape[1]))
    found = [
        _best(x, y, len(known), divisions[first : first + side_by_side])
        for first in range(0, len(divisions), side_by_side)
    ]
    validation, accuracies = torch.cat(found, dim=1).cpu().numpy()
    return SplitProbes(accuracies, validation)


def _best(x: torch.Tensor, y: torch.Tensor, classes: int, divisions: list[tuple[Rows, ...]]) -> torch.Tensor:
    """Return accuracies `(2, divisions)` for choosing the strength and for evaluation, of the best strength."""
    fit, kept, test = (torch.from_numpy(np.stack(rows)).to(x.device) for rows in zip(*divisions, strict=True))
    scores = []
    for weight, intercept in fit_problems(x[fit], y[fit], classes, _STRENGTHS):
        models = map(Logistic, weight, intercept)
        is_right = torch.stack([model.predict(x) == y for model in models])
        scores.append(torch.stack([is_right.gather(1, rows).double().mean(1) for rows in (kept, test)]))
    found = torch.stack(scores)
    first = found[:, 0].max(0).indices  # the first of the best: the strongest regularisation
    return found.gather(0, first.expand(1, 2, -1))[0]
