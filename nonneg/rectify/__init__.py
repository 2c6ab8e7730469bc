"""The end of a projector: standardised features, and the rectifier σ₊ that makes them non-negative."""

from nonneg.rectify._maps import rep_relu, top_k
from nonneg.rectify._non_negative import CONTROLS, KINDS, WITH_SHARE, NonNegative
from nonneg.rectify._standardise import EPSILON, Standardise, calibrate, folded

__all__ = [
    "CONTROLS",
    "EPSILON",
    "KINDS",
    "WITH_SHARE",
    "NonNegative",
    "Standardise",
    "calibrate",
    "folded",
    "rep_relu",
    "top_k",
]
