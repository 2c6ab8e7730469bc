"""Complete experiments: demo, doctor, comparison, reproduction of the paper."""

import importlib
from typing import TYPE_CHECKING, Any

from nonneg.studies._compare import compare, compare_files
from nonneg.studies._comparison import Comparison
from nonneg.studies._diagnosis import Conversion, Diagnosis, FeatureStatistics, Finding
from nonneg.studies._doctor import diagnose, examine
from nonneg.studies._peers import METHODS, Settings
from nonneg.studies._plan import Plan, plan_for
from nonneg.studies._sizes import Size, Sizes, sweep_sizes, sweep_sizes_of_file
from nonneg.studies._theory import print_theory
from nonneg.studies._word_counts import tf_idf

if TYPE_CHECKING:
    from nonneg.studies._demo import Outcome, both_sides, demo
    from nonneg.studies._reproduce import reproduce

__all__ = [
    "METHODS",
    "Comparison",
    "Conversion",
    "Diagnosis",
    "FeatureStatistics",
    "Finding",
    "Outcome",
    "Plan",
    "Settings",
    "Size",
    "Sizes",
    "both_sides",
    "compare",
    "compare_files",
    "demo",
    "diagnose",
    "examine",
    "plan_for",
    "print_theory",
    "reproduce",
    "sweep_sizes",
    "sweep_sizes_of_file",
    "tf_idf",
]

# These train models and draw figures, with packages of the extra train.
_HOMES = {"Outcome": "_demo", "both_sides": "_demo", "demo": "_demo", "reproduce": "_reproduce"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"nonneg.studies.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'nonneg.studies' has no attribute {name!r}")
