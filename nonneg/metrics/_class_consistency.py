"""Class consistency: does a feature light up for one class only?"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nonneg.codes import EPSILON
from nonneg.metrics._codes import check
from nonneg.metrics._labels import as_labels
from nonneg.metrics._tally import Tally, tally


@dataclass(frozen=True)
class ClassConsistency:
    """Class consistency with what is needed to believe it.

    Attributes:
        value: mean over live features, the paper's figure.
        supported: mean over features with at least `min_support` active samples. A feature that
            fires once scores 100%: this figure leaves such luck out.
        floor: what `supported` would be by chance, the same activations under permuted labels.
        excess: `supported - floor`.
        purity: active entries of their feature's commonest class, as a share of all active entries:
            features count by their support.
        entropy: of the classes among a feature's active samples, in nats, mean over supported features;
            0 where each lights up for one class.
        live: number of features that are active at all.
        n_supported: number of features behind `supported`.
        per_feature: `(features,)`, each feature's share of its commonest class; NaN where dead.
        per_feature_entropy: `(features,)`, each feature's entropy; NaN where dead.
        support: `(features,)`, on how many labelled samples each feature is active.
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
        """`(features,)` booleans: at least `min_support` active samples."""
        return self.support >= max(self.min_support, 1)

    @property
    def excess(self) -> float:
        return self.supported - self.floor

    def __float__(self) -> float:
        return self.value


def class_consistency(
    z: Any, labels: Any, min_support: int = 10, permutations: int = 20, seed: int = 0
) -> ClassConsistency:
    """Of the samples a feature is active on, the share that its commonest class has, averaged.

    Args:
        z: `(samples, features)`: torch, NumPy or SciPy sparse.
        labels: `(samples,)` integers; samples with a negative one are unlabelled and left out.
        min_support: active samples a feature needs to count in `supported`, `entropy` and the floor.
        permutations: how many times the labels are permuted for the floor; without any it is NaN.
        seed: of the permutations.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> class_consistency(z, [0, 0, 0, 1]).value
        0.75
    """
    check(z, "class_consistency")
    y = as_labels(labels, z.shape[0], "class_consistency").numpy()
    given, generator = y[y >= 0].astype(np.int32), torch.Generator().manual_seed(seed)
    permuted = [given[torch.randperm(len(given), generator=generator).numpy()] for _ in range(permutations)]
    return consistency_of(tally(z, y >= 0, np.stack([given, *permuted]), "class_consistency"), min_support)


def consistency_of(counted: Tally, min_support: int) -> ClassConsistency:
    """The figures of counts."""
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
