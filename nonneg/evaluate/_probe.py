"""The linear probe: how well a linear classifier predicts the labels from the features."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.codes import dense
from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.evaluate._logistic import Logistic, fit_logistic, fit_strengths
from nonneg.evaluate._subject import split_rows
from nonneg.features import Features
from nonneg.labels import is_labelled

_STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)  # from strong to weak regularisation: each minimum is near the next one


@dataclass(frozen=True)
class Probe:
    """The result of a linear probe.

    Attributes:
        accuracy: on the labelled test samples.
        C: the inverse regularisation strength that validation chose.
        hits: `(labelled test samples,)` booleans: which of them are predicted correctly.
    """

    accuracy: float
    C: float
    hits: npt.NDArray[np.bool_] = field(compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class FittedProbe:
    """A linear probe fitted on some features, to be evaluated on others of the same model."""

    train: Features
    C: float
    classes: Tensor
    standardise: "Standardiser"
    model: Logistic

    def test(self, features: Features) -> Probe:
        """Evaluate on the labelled samples of other features."""
        require_labels(features, "test")
        x, y = labelled(features, self.model.weight.device)
        y = labels_as_in(self.train, features, y)
        hits = (self.classes[self.model.predict(self.standardise(x))] == y).cpu().numpy()
        return Probe(float(hits.mean()), self.C, hits)


def linear_probe(train: Features, test: Features, seed: int = 0, device: str | torch.device | None = None) -> Probe:
    """Fit multinomial logistic regression on standardised, cached features and evaluate it on others.

    The regularisation strength is the one with the best accuracy on a fifth of `train`, held out. `test` is used
    once, at the end. Arrays can be probed as `Features(codes, labels=labels)`.

    Args:
        train, test: features with labels, dense or sparse. Unlabelled samples are left out. A class with a single
            training sample is learnt, but not validated.
        seed: decides which samples are held out.
        device: where to compute; None is a CUDA device if there is one.

    Example:
        >>> features = Features(np.repeat(np.eye(2, dtype=np.float32), 5, axis=0), labels=[0] * 5 + [1] * 5)
        >>> linear_probe(features, features).accuracy
        1.0
    """
    require_labels(test, "test")
    return fit_probe(train, seed, device).test(test)


def fit_probe(train: Features, seed: int = 0, device: str | torch.device | None = None) -> FittedProbe:
    """Fit the probe of `linear_probe`, to evaluate it on several test sets.

    Args:
        train, seed, device: as for `linear_probe`.
    """
    require_labels(train, "train")
    x, y = labelled(train, choose_device(device))
    known, y, counts = torch.unique(y, return_inverse=True, return_counts=True)
    if len(counts) < 2 or counts.max() < 2:
        raise InputError(
            f"linear_probe: train has {len(y)} labelled samples in {len(counts)} classes, expected at least 2 classes"
            " and a class with 2 samples"
        )
    fit, kept = (
        torch.as_tensor(rows, device=x.device) for rows in split_rows(y.cpu().numpy(), np.arange(len(y)), seed)
    )
    best = _best_strength(x, y, fit, kept, len(known))
    standardise = Standardiser(x)
    return FittedProbe(train, best, known, standardise, fit_logistic(standardise(x), y, len(known), best))


def require_labels(features: Features, which: str, name: str = "linear_probe") -> None:
    """Raise an error if no sample is labelled."""
    if features.labels is None or not is_labelled(features.labels).any():
        raise InputError(f"{name}: the {which} features have no labels")


def labelled(features: Features, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the codes in float64 and the labels of the labelled samples."""
    labels = np.asarray(features.labels)
    known = is_labelled(labels)
    codes = torch.from_numpy(dense(features.codes[known])).to(device, torch.float64)
    return codes, torch.from_numpy(labels[known]).to(device)


def labels_as_in(train: Features, test: Features, y: Tensor) -> Tensor:
    """Return the labels of `test` as numbers of `train`: classes are matched by name if both have names.

    Features of different widths are not of one model and raise an error.
    """
    if train.shape[1] != test.shape[1]:
        raise InputError(f"train has {train.shape[1]} features and test {test.shape[1]}, expected the same number")
    names, others = train.label_names, test.label_names
    if not names or not others or names == others:
        return y
    require_same_classes(names, others)
    return torch.tensor([names.index(name) for name in others], device=y.device)[y]


def require_same_classes(names: Sequence[str], others: Sequence[str]) -> None:
    """Raise an error if test samples have a class that the train samples do not have, where both name theirs."""
    if names and (missing := sorted(set(others) - set(names))):
        raise InputError(f"linear_probe: test has the class {missing[0]!r}, expected the classes of train")


def _best_strength(x: Tensor, y: Tensor, fit: Tensor, kept: Tensor, classes: int) -> float:
    """Return the strength with the best accuracy on the held-out rows; ties are decided by cross-entropy."""
    standardise = Standardiser(x[fit])
    fit_x, kept_x = standardise(x[fit]), standardise(x[kept])
    scores = {}
    models = fit_strengths(fit_x, y[fit], classes, _STRENGTHS)
    for C, model in zip(_STRENGTHS, models, strict=True):
        logits = model.logits(kept_x)
        scores[C] = (float((logits.argmax(1) == y[kept]).double().mean()), -float(F.cross_entropy(logits, y[kept])))
    return max(scores, key=scores.__getitem__)


class Standardiser:
    """Scales columns to mean 0 and standard deviation 1, both taken from the rows given; constant columns become 0.

    Attributes:
        varies: `(columns,)` booleans: which columns are not constant; columns that vary only by rounding are.
    """

    def __init__(self, x: Tensor) -> None:
        self.peak = x.abs().amax(0).clamp(min=torch.finfo(x.dtype).tiny)  # avoids overflow and underflow of squares
        scaled = x / self.peak
        self.mean, self.deviation = scaled.mean(0), scaled.std(0, correction=0)
        self.varies = self.deviation > 1e-12 * self.mean.abs()

    def __call__(self, x: Tensor) -> Tensor:
        return torch.where(self.varies, (x / self.peak - self.mean) / self.deviation, 0.0)
