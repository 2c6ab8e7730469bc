"""Metrics of features, each with one definition: pure functions of codes and labels.

`nonneg.metrics.accumulate` holds torchmetrics classes for those that can be summed over batches and processes.
"""

import importlib
from typing import TYPE_CHECKING, Any

from nonneg.codes import EPSILON
from nonneg.metrics._activity import (
    Activity,
    activity,
    expected_activation,
    hoyer,
    live_features,
    sparsity,
    stored_bytes,
)
from nonneg.metrics._agreement import Agreement, Match, agreement, match
from nonneg.metrics._class_consistency import ClassConsistency, class_consistency
from nonneg.metrics._information_gap import MutualInformationGap, mutual_information_gap
from nonneg.metrics._partner_auc import PartnerAuc, partner_auc
from nonneg.metrics._retrieval import (
    group_recall_at_k,
    mean_average_precision,
    mean_reciprocal_rank,
    precision_at_k,
    recall_at_k,
)
from nonneg.metrics._sepin import Sepin, sepin
from nonneg.metrics._structure import correlation, correlation_matrix, effective_rank

if TYPE_CHECKING:
    from nonneg.metrics import accumulate

__all__ = [
    "EPSILON",
    "Activity",
    "Agreement",
    "ClassConsistency",
    "Match",
    "MutualInformationGap",
    "PartnerAuc",
    "Sepin",
    "accumulate",
    "activity",
    "agreement",
    "class_consistency",
    "correlation",
    "correlation_matrix",
    "effective_rank",
    "expected_activation",
    "group_recall_at_k",
    "hoyer",
    "live_features",
    "match",
    "mean_average_precision",
    "mean_reciprocal_rank",
    "mutual_information_gap",
    "partner_auc",
    "precision_at_k",
    "recall_at_k",
    "sepin",
    "sparsity",
    "stored_bytes",
]


def __getattr__(name: str) -> Any:
    if name == "accumulate":  # imported on first use: torchmetrics is slow to load
        return importlib.import_module("nonneg.metrics.accumulate")
    raise AttributeError(f"module 'nonneg.metrics' has no attribute {name!r}")
