"""Evaluation protocols over `Features`."""

from nonneg.evaluate._probe import Probe, linear_probe

__all__ = ["Probe", "linear_probe"]
