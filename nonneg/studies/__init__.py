"""Complete experiments: demo, doctor, comparison, reproduction of the paper."""

from nonneg.studies._compare import compare, compare_files
from nonneg.studies._comparison import Comparison
from nonneg.studies._demo import Outcome, both_sides, demo
from nonneg.studies._diagnosis import Conversion, Diagnosis, FeatureStatistics, Finding
from nonneg.studies._doctor import diagnose, examine
from nonneg.studies._plan import Plan, plan_for
from nonneg.studies._reproduce import reproduce
from nonneg.studies._theory import print_theory
from nonneg.studies._word_counts import tf_idf

__all__ = [
    "Comparison",
    "Conversion",
    "Diagnosis",
    "FeatureStatistics",
    "Finding",
    "Outcome",
    "Plan",
    "both_sides",
    "compare",
    "compare_files",
    "demo",
    "diagnose",
    "examine",
    "plan_for",
    "print_theory",
    "reproduce",
    "tf_idf",
]
