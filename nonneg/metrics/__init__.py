"""Metrics of features, each with one definition: pure functions of codes and labels."""

from nonneg.metrics._agreement import Match, match
from nonneg.metrics._class_consistency import ClassConsistency, class_consistency
from nonneg.metrics._codes import EPSILON
from nonneg.metrics._retrieval import mean_average_precision, precision_at_k
from nonneg.metrics._structure import correlation, correlation_matrix, effective_rank, live_features, sparsity

__all__ = [
    "EPSILON",
    "ClassConsistency",
    "Match",
    "class_consistency",
    "correlation",
    "correlation_matrix",
    "effective_rank",
    "live_features",
    "match",
    "mean_average_precision",
    "precision_at_k",
    "sparsity",
]
