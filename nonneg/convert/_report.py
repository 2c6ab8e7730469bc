"""Which features are live, dead or dense after a fit."""

from dataclasses import dataclass

import numpy as np
import torch

from nonneg.codes import active
from nonneg.convert._head import Head, encoded
from nonneg.convert._rows import Rows

_ROWS = 20_000
_DENSE = 0.5


@dataclass(frozen=True)
class FitReport:
    """How often the features are active on the data of the fit.

    Attributes:
        features: number of features.
        live: features active on at least one row.
        dead: features active on no row.
        dense: features active on more than half of the rows.
        active: mean number of active features per row.
        empty: rows without an active feature.
        rows: number of rows examined: all of them, or 20,000 spread over the data.
    """

    features: int
    live: int
    dead: int
    dense: int
    active: float
    empty: int
    rows: int

    def __str__(self) -> str:
        return (
            f"{self.live} of {self.features} features live, {self.dead} dead, {self.dense} dense (active on more than"
            f" half of {self.rows:,} rows); {self.active:.1f} active per row, {self.empty} rows without any"
        )


def report_on(head: Head, rows: Rows) -> FitReport:
    """Report on the features of a head, on the rows of its fit."""
    total = len(rows)
    picked = torch.arange(total) if total <= _ROWS else torch.linspace(0, total - 1, _ROWS).long()
    is_active = active(encoded(head, Rows(rows.take(picked), device=head.weight.device)))
    per_feature, per_row = (np.asarray(is_active.sum(axis=axis)) for axis in (0, 1))
    live = int((per_feature > 0).sum())
    return FitReport(
        features=len(per_feature),
        live=live,
        dead=len(per_feature) - live,
        dense=int((per_feature > _DENSE * len(picked)).sum()),
        active=float(per_row.mean()),
        empty=int((per_row == 0).sum()),
        rows=len(picked),
    )
