"""Evaluation protocols over `Features`."""

from nonneg.evaluate._naming import Suggestion, suggest_names
from nonneg.evaluate._probe import Probe, linear_probe

__all__ = ["Probe", "Suggestion", "linear_probe", "suggest_names"]
