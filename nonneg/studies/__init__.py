"""Whole experiments made of the other rooms."""

from nonneg.studies._demo import Outcome, demo
from nonneg.studies._theory import print_theory

__all__ = ["Outcome", "demo", "print_theory"]
