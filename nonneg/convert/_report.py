"""What became of the features of a fit: which are live, dead, dense."""

from dataclasses import dataclass

import numpy as np
import torch

from nonneg.convert._head import Head, encoded
from nonneg.convert._rows import Rows

_ROWS = 20_000
_DENSE = 0.5


@dataclass(frozen=True)
class FitReport:
    """Features by how often they are active, on the data of the fit.

    Attributes:
        features: how many there are.
        live: active on one row or more.
        dead: active on none.
        dense: active on more than half of the rows.
        active: features active on a row, on average.
        empty: rows without an active feature.
        rows: how many were looked at: the data, or 20,000 rows spread over it.
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
            f" half of {self.rows:,} rows); {self.active:.1f} active on a row, {self.empty} rows without any"
        )


def report_on(head: Head, rows: Rows) -> FitReport:
    """Of a head on rows of its fit."""
    total = len(rows)
    picked = torch.arange(total) if total <= _ROWS else torch.linspace(0, total - 1, _ROWS).long()
    codes = encoded(head, Rows(rows.take(picked), device=rows.device))
    counts = np.bincount(codes.indices, minlength=codes.shape[1])
    active = np.diff(codes.indptr)
    live = int((counts > 0).sum())
    return FitReport(
        features=codes.shape[1],
        live=live,
        dead=codes.shape[1] - live,
        dense=int((counts > _DENSE * len(picked)).sum()),
        active=float(active.mean()),
        empty=int((active == 0).sum()),
        rows=len(picked),
    )
