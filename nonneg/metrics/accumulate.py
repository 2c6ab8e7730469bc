"""Metrics over batches and processes: torchmetrics classes whose states are sums.

Each returns what its pure function returns for all data at once, whichever process saw which batch:

    metric = accumulate.Correlation(features=256)
    for z in batches:
        metric.update(z)
    metric.compute()

Where the pure function returns a result with several values, `compute` returns a dictionary of them.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from nonneg.extras import needs_extra
from nonneg.metrics._activity import activation_sums, active_counts, activity_of, hoyer_rows
from nonneg.metrics._class_consistency import consistency_of
from nonneg.metrics._codes import active_entries, as_integers
from nonneg.metrics._structure import correlation_of, effective_rank_of, gram
from nonneg.metrics._tally import tally_of

with needs_extra("train", "nonneg.metrics.accumulate"):
    from torchmetrics import Metric


class _Sums(Metric):
    """A metric whose states start as zeros and are summed over batches and processes."""

    full_state_update = False
    samples: Tensor

    def __init__(self, options: Mapping[str, Any], **zeros: Tensor) -> None:
        super().__init__(**options)
        for name, zero in {"samples": torch.tensor(0), **zeros}.items():
            self.add_state(name, zero, dist_reduce_fx="sum")

    def _add_batch(self, z: Any, **sums: Tensor) -> None:
        for name, value in sums.items():
            state = getattr(self, name)
            if value.shape != state.shape:
                found, expected = z.shape[1], state.shape[-1]
                raise ValueError(f"{type(self).__name__}: z has {found} features, expected {expected}")
            setattr(self, name, state + value.to(state.device))
        self.samples = self.samples + z.shape[0]

    def _scalar(self, value: float) -> Tensor:
        return torch.tensor(value, dtype=torch.float64, device=self.device)


class ClassConsistency(_Sums):
    """`nonneg.metrics.class_consistency` for labels from 0 to `classes` - 1; negative labels mean unlabelled.

    The result has no `floor` and no `excess`: permuting the labels needs all of them at once.

    Example:
        >>> metric = ClassConsistency(features=2, classes=2, min_support=1)
        >>> metric.update(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([0, 1]))
        >>> metric.update(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
        >>> round(float(metric.compute()["value"]), 4)
        0.8333
    """

    counts: Tensor

    def __init__(self, features: int, classes: int, min_support: int = 10, **kwargs: Any) -> None:
        super().__init__(kwargs, counts=torch.zeros(classes, features, dtype=torch.int64))
        self.min_support = min_support

    def update(self, z: Any, labels: Any) -> None:
        rows, columns = active_entries(z, "ClassConsistency")
        y = as_integers(labels, z.shape[0], "ClassConsistency").to(rows.device)
        classes, features = len(self.counts), z.shape[1]
        if bool((y >= classes).any()):
            raise ValueError(f"ClassConsistency: labels holds {int(y.max())}, expected at most {classes - 1}")
        kept = y[rows] >= 0
        cells = y[rows[kept]] * features + columns[kept]
        self._add_batch(z, counts=torch.bincount(cells, minlength=classes * features).view(classes, features))

    def compute(self) -> dict[str, Tensor]:
        result = consistency_of(tally_of(self.counts), self.min_support)
        values = {f.name: getattr(result, f.name) for f in fields(result) if f.name not in ("floor", "variant")}
        return {name: value if isinstance(value, Tensor) else self._scalar(value) for name, value in values.items()}


class Activity(_Sums):
    """`nonneg.metrics.activity`: a dictionary with frequency, live, dead and dense.

    Example:
        >>> metric = Activity(features=2)
        >>> metric.update(torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
        >>> metric.compute()["frequency"]
        tensor([1.0000, 0.5000], dtype=torch.float64)
    """

    active: Tensor

    def __init__(self, features: int, dense: float = 0.5, **kwargs: Any) -> None:
        super().__init__(kwargs, active=torch.zeros(features, dtype=torch.int64))
        self.dense = dense

    def update(self, z: Any) -> None:
        self._add_batch(z, active=active_counts(z, "Activity"))

    def compute(self) -> dict[str, Tensor]:
        result = activity_of(self.active, int(self.samples), self.dense)
        counts = {name: self._scalar(getattr(result, name)) for name in ("live", "dead", "dense")}
        return {"frequency": result.frequency, **counts}


class Sparsity(_Sums):
    """`nonneg.metrics.sparsity`.

    Example:
        >>> metric = Sparsity()
        >>> metric.update(torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
        >>> float(metric.compute())
        0.75
    """

    active: Tensor
    entries: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(kwargs, active=torch.tensor(0), entries=torch.tensor(0))

    def update(self, z: Any) -> None:
        rows, _ = active_entries(z, "Sparsity")
        self._add_batch(z, active=torch.tensor(len(rows)), entries=torch.tensor(z.shape[0] * z.shape[1]))

    def compute(self) -> Tensor:
        return 1 - self.active.double() / self.entries


class Hoyer(_Sums):
    """`nonneg.metrics.hoyer`.

    Example:
        >>> metric = Hoyer()
        >>> metric.update(torch.tensor([[3.0, 0.0, 0.0, 0.0], [1.0, -1.0, 1.0, 1.0]]))
        >>> float(metric.compute())
        0.5
    """

    total: Tensor
    rows: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(kwargs, total=torch.tensor(0.0, dtype=torch.float64), rows=torch.tensor(0))

    def update(self, z: Any) -> None:
        rows = hoyer_rows(z, "Hoyer")
        self._add_batch(z, total=rows.sum(), rows=torch.tensor(len(rows)))

    def compute(self) -> Tensor:
        return self.total / self.rows


class ExpectedActivation(_Sums):
    """`nonneg.metrics.expected_activation`, `(features,)`.

    Example:
        >>> metric = ExpectedActivation(features=2)
        >>> metric.update(torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
        >>> metric.compute()
        tensor([0.3000, 0.9000], dtype=torch.float64)
    """

    total: Tensor

    def __init__(self, features: int, **kwargs: Any) -> None:
        super().__init__(kwargs, total=torch.zeros(features, dtype=torch.float64))

    def update(self, z: Any) -> None:
        self._add_batch(z, total=activation_sums(z, "ExpectedActivation"))

    def compute(self) -> Tensor:
        return self.total / self.samples


class Correlation(_Sums):
    """`nonneg.metrics.correlation`; the state is a `(features, features)` matrix of inner products.

    Example:
        >>> metric = Correlation(features=2)
        >>> metric.update(torch.tensor([[3.0, 3.0], [4.0, -4.0]]))
        >>> round(float(metric.compute()), 4)
        0.28
    """

    products: Tensor
    active: Tensor

    def __init__(self, features: int, **kwargs: Any) -> None:
        products = torch.zeros(features, features, dtype=torch.float64)
        super().__init__(kwargs, products=products, active=torch.zeros(features, dtype=torch.int64))

    def update(self, z: Any) -> None:
        self._add_batch(z, products=gram(z, "Correlation"), active=active_counts(z, "Correlation"))

    def compute(self) -> Tensor:
        return self._scalar(correlation_of(self.products, self.active > 0))


class EffectiveRank(_Sums):
    """`nonneg.metrics.effective_rank`; the state is a `(features, features)` matrix of inner products.

    Example:
        >>> metric = EffectiveRank(features=3)
        >>> metric.update(torch.eye(3))
        >>> round(float(metric.compute()), 4)
        3.0
    """

    products: Tensor

    def __init__(self, features: int, **kwargs: Any) -> None:
        super().__init__(kwargs, products=torch.zeros(features, features, dtype=torch.float64))

    def update(self, z: Any) -> None:
        self._add_batch(z, products=gram(z, "EffectiveRank"))

    def compute(self) -> Tensor:
        return self._scalar(effective_rank_of(self.products))
