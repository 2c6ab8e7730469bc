"""The head that turns vectors into codes (a linear map, relu and top-k), and the report on its features."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.codes import active, unit_rows
from nonneg.convert._rows import Rows
from nonneg.rectify import top_k

_BLOCK = 4096  # rows that are encoded together
_REPORTED = 20_000  # maximum number of rows that a report is about
_DENSE = 0.5  # a feature that is active on more than this share of the rows is dense


class Head(nn.Module):
    """Map unit vectors to non-negative codes: `relu(x Wᵀ + b)`, keeping the `max_active` largest entries per row.

    Shape: `(rows, width)` to `(rows, features)`.

    Example:
        >>> Head(width=8, features=32, max_active=4)(torch.randn(5, 8)).count_nonzero(1).max() <= 4
        tensor(True)
    """

    def __init__(self, width: int, features: int, max_active: int | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features, width))
        self.bias = nn.Parameter(torch.zeros(features))
        self.max_active = max_active

    def forward(self, x: Tensor, max_active: int | None = None) -> Tensor:
        """Codes, with the head's own limit or another one."""
        before = F.linear(x, self.weight, self.bias)
        most = max_active or self.max_active
        return F.relu(before) if most is None else top_k(before, min(most, before.shape[1]))

    def limit(self) -> str:
        """The sparsity of the codes, in words."""
        return f"at most {self.max_active or self.weight.shape[0]} of them active per sample"


@torch.inference_mode()
def encoded(head: Head, rows: Rows) -> sp.csr_array:
    """Unit codes of all rows, `(rows, features)`, in the rows' dtype; a row without an active feature is empty.

    Rows of zeros, which have no direction, have none.

    They are computed on the rows' device. The head itself is neither moved nor converted.
    """
    blocks = list(_blocks(head, rows))
    features = head.weight.shape[0]
    counts = np.concatenate([count for _, _, count in blocks]) if blocks else np.zeros(0, np.int64)
    index = np.int32 if max(int(counts.sum()), features) < 2**31 else np.int64
    indptr = np.zeros(len(rows) + 1, index)
    np.cumsum(counts, out=indptr[1:])
    values = np.concatenate([value for value, _, _ in blocks]) if blocks else np.zeros(0, np.float32)
    columns = np.concatenate([column for _, column, _ in blocks]) if blocks else np.zeros(0, np.int32)
    codes = sp.csr_array((values, columns.astype(index, copy=False), indptr), shape=(len(rows), features), copy=False)
    codes.has_canonical_format = True
    return codes


def _blocks(head: Head, rows: Rows) -> Iterator[tuple[Any, Any, Any]]:
    """Per block of rows, the values, their columns, and the number of values per row."""
    weight, bias = (tensor.to(rows.device, rows.dtype) for tensor in (head.weight, head.bias))
    for x in rows.blocks(_BLOCK):
        # A row of zeros has no direction, and so no features.
        before = F.linear(x, weight, bias).mul_(x.any(dim=1, keepdim=True))
        if head.max_active is None or head.max_active >= before.shape[1]:
            values, columns = F.relu_(before), torch.arange(before.shape[1], device=x.device).expand(before.shape)
        else:
            values, columns = before.topk(head.max_active, dim=1, sorted=False)
            columns, order = columns.sort(dim=1)
            values = values.gather(1, order).relu_()
        values = unit_rows(values)
        is_stored = values > 0
        counts = is_stored.sum(1)
        if not bool((counts == values.shape[1]).all()):
            values, columns = values[is_stored], columns[is_stored]
        yield values.flatten().cpu().numpy(), columns.flatten().to(torch.int32).cpu().numpy(), counts.cpu().numpy()


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
    picked = (
        torch.arange(total)
        if total <= _REPORTED
        else torch.linspace(0, total - 1, _REPORTED, dtype=torch.float64).long()
    )
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
