"""The linear probe: how much of the labels can be read off the features by a linear map."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.model_selection import train_test_split
from torch import Tensor

from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.evaluate._logistic import Logistic, fit_logistic, fit_strengths
from nonneg.features import Features

_STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)  # from strong to weak: the next minimum is near


@dataclass(frozen=True)
class Probe:
    """Accuracy on the labelled test features, and the inverse regularisation that validation chose.

    Attributes:
        hits: `(labelled samples,)` booleans: which of them it told right.
    """

    accuracy: float
    C: float
    hits: npt.NDArray[np.bool_] = field(compare=False, repr=False)


class FittedProbe:
    """A probe fitted on features, to be tried on any others of the same model."""

    def __init__(
        self, train: Features, C: float, classes: Tensor, standardise: "_Standardiser", model: Logistic
    ) -> None:
        self.C = C
        self._train, self._classes, self._standardise, self._model = train, classes, standardise, model

    def test(self, features: Features) -> Probe:
        """Tell the labels of other features."""
        require_labels(features, "test")
        if features.shape[1] != self._train.shape[1]:
            found = f"train has {self._train.shape[1]} features and test {features.shape[1]}"
            raise InputError(f"linear_probe: {found}, expected the same")
        x, y = labelled(features, self._model.weight.device)
        y = renumbered(y, self._train, features)
        hits = (self._classes[self._model.predict(self._standardise(x))] == y).cpu().numpy()
        return Probe(float(hits.mean()), self.C, hits)


def linear_probe(train: Features, test: Features, seed: int = 0, device: str | torch.device | None = None) -> Probe:
    """Multinomial logistic regression on standardised, cached features.

    The regularisation is the one that does best on a fifth of `train` kept aside; `test` is looked
    at once, at the end.

    Args:
        train, test: features with labels.
        seed: of the split.
        device: where to compute; None is a CUDA device if there is one.
    """
    require_labels(test, "test")
    return fit_probe(train, seed, device).test(test)


def fit_probe(train: Features, seed: int = 0, device: str | torch.device | None = None) -> FittedProbe:
    """`linear_probe`'s first half: fit on `train`, so that several test sets can be told.

    Example:
        >>> features = Features(np.repeat(np.eye(2, dtype=np.float32), 5, axis=0), labels=[0] * 5 + [1] * 5)
        >>> fit_probe(features).test(features).accuracy
        1.0
    """
    require_labels(train, "train")
    x, y = labelled(train, choose_device(device))
    known, y, counts = torch.unique(y, return_inverse=True, return_counts=True)
    if len(counts) < 2 or counts.min() < 2 or len(y) < 5 * len(counts):
        raise InputError(
            f"linear_probe: train has {len(y)} labelled samples of {len(counts)} classes, the smallest of"
            f" {counts.min()}, expected 2 classes or more with 5 samples each, and no class of one"
        )
    fit, kept = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y.cpu().numpy(), random_state=seed)
    fit, kept = (torch.as_tensor(rows, device=x.device) for rows in (fit, kept))
    best = _best_strength(x, y, fit, kept, len(known))
    standardise = _Standardiser(x)
    return FittedProbe(train, best, known, standardise, fit_logistic(standardise(x), y, len(known), best))


def require_labels(features: Features, which: str, name: str = "linear_probe") -> None:
    """Refuse features without labels, in the name of who needs them."""
    if features.labels is None or not (features.labels >= 0).any():
        raise InputError(f"{name}: the {which} features have no labels")


def labelled(features: Features, device: torch.device) -> tuple[Tensor, Tensor]:
    """Codes in float64 and labels, of the samples that have one."""
    labels = np.asarray(features.labels)
    codes = features.codes[labels >= 0]
    dense = codes.toarray() if features.is_sparse else codes
    return torch.from_numpy(dense).to(device, torch.float64), torch.from_numpy(labels[labels >= 0]).to(device)


def renumbered(y: Tensor, train: Features, test: Features) -> Tensor:
    """Labels of `test` in the numbers of `train`: classes go by their names where both have names."""
    names, others = train.label_names, test.label_names
    if not names or not others or names == others:
        return y
    require_same_classes(names, others)
    return torch.tensor([names.index(name) for name in others], device=y.device)[y]


def require_same_classes(names: Sequence[str], others: Sequence[str]) -> None:
    """Refuse other samples with a class that the train samples do not have, where both name theirs."""
    if names and (lacking := sorted(set(others) - set(names))):
        raise InputError(
            "linear_probe: train and test name their labels differently, expected the same classes"
            f" (test has {lacking[0]!r}, train has not)"
        )


def _best_strength(x: Tensor, y: Tensor, fit: Tensor, kept: Tensor, classes: int) -> float:
    """The one with the best accuracy on the rows kept aside; of those, the one with the least cross entropy."""
    standardise = _Standardiser(x[fit])
    fit_x, kept_x = standardise(x[fit]), standardise(x[kept])
    scores = {}
    models = fit_strengths(fit_x, y[fit], classes, _STRENGTHS)
    for C, model in zip(_STRENGTHS, models, strict=True):
        logits = model.logits(kept_x)
        scores[C] = (float((logits.argmax(1) == y[kept]).double().mean()), -float(F.cross_entropy(logits, y[kept])))
    return max(scores, key=scores.__getitem__)


class _Standardiser:
    """Columns of mean 0 and deviation 1, as on the rows it was made of; constant ones become 0."""

    def __init__(self, x: Tensor) -> None:
        self.mean = x.mean(0)
        spread = x.std(0, correction=0)
        self.scale = torch.where(spread > 1e-12 * self.mean.abs(), spread, 1.0)  # what varies by rounding is constant

    def __call__(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.scale
