"""Class consistency: does a feature light up for one class only?"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nonneg.metrics._codes import EPSILON, Entries, active_entries, as_labels


@dataclass(frozen=True)
class ClassConsistency:
    """Class consistency with what is needed to believe it.

    Attributes:
        value: mean over live features, the paper's figure.
        supported: mean over features with at least `min_support` active samples. A feature that
            fires once scores 100%: this figure leaves such luck out.
        floor: what `supported` would be by chance, the same activations under permuted labels.
        excess: `supported - floor`.
        live: number of features that are active at all.
        n_supported: number of features behind `supported`.
        per_feature: `(features,)`, each feature's share of its commonest class; NaN where dead.
        support: `(features,)`, on how many samples each feature is active.
    """

    value: float
    supported: float
    floor: float
    live: int
    n_supported: int
    per_feature: Tensor
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
        labels: `(samples,)` integers.
        min_support: active samples a feature needs to count in `supported` and in the floor.
        permutations: how many times the labels are permuted for the floor.
        seed: of the permutations.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> class_consistency(z, [0, 0, 0, 1]).value
        0.75
    """
    active = active_entries(z, "class_consistency")
    y = as_labels(labels, active.shape[0], "class_consistency").to(active.rows.device)
    per_feature, support = _purest_share(active, y)
    live, supported = support > 0, support >= max(min_support, 1)
    generator = torch.Generator().manual_seed(seed)
    chance = [
        _mean(_purest_share(active, y[torch.randperm(len(y), generator=generator).to(y.device)])[0], supported)
        for _ in range(permutations)
    ]
    return ClassConsistency(
        value=_mean(per_feature, live),
        supported=_mean(per_feature, supported),
        floor=sum(chance) / len(chance) if chance else float("nan"),
        live=int(live.sum()),
        n_supported=int(supported.sum()),
        per_feature=per_feature,
        support=support,
        min_support=min_support,
    )


def _purest_share(active: Entries, y: Tensor) -> tuple[Tensor, Tensor]:
    """Per feature: the share of the commonest class among active samples, and their number."""
    classes, features = int(y.max()) + 1, active.shape[1]
    counts = torch.bincount(y[active.rows] * features + active.columns, minlength=classes * features)
    counts = counts.view(classes, features)
    support = counts.sum(0)
    return counts.amax(0) / support.to(torch.float64), support


def _mean(values: Tensor, where: Tensor) -> float:
    return float(values[where].mean()) if bool(where.any()) else float("nan")
