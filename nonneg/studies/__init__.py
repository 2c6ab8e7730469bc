"""Whole experiments made of the other rooms."""

from nonneg.studies._demo import Outcome, demo
from nonneg.studies._diagnosis import Conversion, Diagnosis, Finding, Reading
from nonneg.studies._doctor import diagnose
from nonneg.studies._examine import examine
from nonneg.studies._theory import print_theory

__all__ = [
    "Conversion",
    "Diagnosis",
    "Finding",
    "Outcome",
    "Reading",
    "demo",
    "diagnose",
    "examine",
    "print_theory",
]
