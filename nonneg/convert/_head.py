"""The head that turns vectors into codes: a linear map, relu and top-k."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.codes import unit_rows
from nonneg.convert._rows import Rows
from nonneg.rectify import top_k

_BLOCK = 4096  # rows that are encoded together


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
        before = F.linear(x, weight, bias)
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
