"""Class consistency: is a feature active for one class only?"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nonneg.codes import EPSILON
from nonneg.metrics._codes import labelled
from nonneg.metrics._tally import Tally, tally


@dataclass(frozen=True)
class ClassConsistency:
    """Class consistency, with the values that put it into perspective.

    Attributes:
        value: mean over live features, as in the paper.
        supported: mean over supported features, which have at least `min_support` active samples. A feature that is
            active on a single sample scores 100% by chance; it does not count here.
        floor: the chance level of `supported`: its mean under permuted labels.
        excess: `supported - floor`.
        purity: share of all active entries that belong to the commonest class of their feature; features count in
            proportion to their support.
        entropy: entropy of the classes among a feature's active samples, in nats, averaged over supported features;
            0 if each feature is active for one class only.
        live: number of features that are active on at least one labelled sample.
        n_supported: number of supported features.
        per_feature: `(features,)` share of the commonest class; NaN for dead features.
        per_feature_entropy: `(features,)` entropy; NaN for dead features.
        support: `(features,)` number of labelled samples that each feature is active on.
        min_support: the number of active samples that a supported feature needs.
        variant: the choices that define the value.
    """

    value: float
    supported: float
    floor: float
    purity: float
    entropy: float
    live: int
    n_supported: int
    per_feature: Tensor
    per_feature_entropy: Tensor
    support: Tensor
    min_support: int
    variant: str = f"rows L2-normalised, active above {EPSILON:g} in absolute value"

    @property
    def supported_features(self) -> Tensor:
        """`(features,)` booleans: which features have at least `min_support` active samples."""
        return self.support >= max(self.min_support, 1)

    @property
    def excess(self) -> float:
        """By how much `supported` exceeds its chance level."""
        return self.supported - self.floor

    def __float__(self) -> float:
        return self.value


def class_consistency(
    z: Any, labels: Any, min_support: int = 10, permutations: int = 20, seed: int = 0
) -> ClassConsistency:
    """Return the share of the commonest class among the samples that a feature is active on, averaged over features.

    An entry is active if its absolute value exceeds 1e-5 of its row's length. Features that are rarely active score
    high by chance, so compare `supported` with its chance level, `floor`.

    Args:
        z: `(samples, features)` torch, NumPy or SciPy sparse matrix.
        labels: `(samples,)`, one label per sample. Unlabelled samples (negative, NaN, None or empty) are left out.
        min_support: number of active samples that a feature needs to count in `supported`, `entropy` and `floor`.
        permutations: number of random permutations of the labels behind `floor`; 0 makes it NaN.
        seed: random seed of the permutations.

    Returns:
        The mean, its chance level and the values per feature.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> class_consistency(z, [0, 0, 0, 1]).value
        0.75
    """
    z, y, _ = labelled(z, labels, "class_consistency")
    generator = torch.Generator().manual_seed(seed)
    permuted = [y[torch.randperm(len(y), generator=generator)] for _ in range(permutations)]
    return consistency_of(tally(z, torch.stack([y, *permuted]), "class_consistency"), min_support)


def consistency_of(counted: Tally, min_support: int) -> ClassConsistency:
    """Return the result of `class_consistency` from counts."""
    support = counted.support
    live, supported = support > 0, support >= max(min_support, 1)
    per_feature, chance = counted.commonest / support.double(), counted.by_chance
    return ClassConsistency(
        value=_mean(per_feature, live),
        supported=_mean(per_feature, supported),
        floor=_mean(chance / support, supported) if chance is not None else float("nan"),
        purity=float(counted.commonest.sum() / support.sum().double()),
        entropy=_mean(counted.entropy, supported),
        live=int(live.sum()),
        n_supported=int(supported.sum()),
        per_feature=per_feature,
        per_feature_entropy=counted.entropy,
        support=support,
        min_support=min_support,
    )


def _mean(values: Tensor, where: Tensor) -> float:
    return float(values[where].mean()) if bool(where.any()) else float("nan")
