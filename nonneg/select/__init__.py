"""Feature selection: selectors with the scikit-learn interface, and a sweep that compares them."""

from nonneg.select._folders import Selected, select_folder, sweep_folders
from nonneg.select._keep import SELECTORS, keep, named_selector
from nonneg.select._selectors import (
    Elimination,
    ExpectedActivation,
    MutualInformation,
    RandomFeatures,
    Reconstruction,
    Sepin,
    Variance,
)
from nonneg.select._sweep import Point, Sweep, sweep

__all__ = [
    "SELECTORS",
    "Elimination",
    "ExpectedActivation",
    "MutualInformation",
    "Point",
    "RandomFeatures",
    "Reconstruction",
    "Selected",
    "Sepin",
    "Sweep",
    "Variance",
    "keep",
    "named_selector",
    "select_folder",
    "sweep",
    "sweep_folders",
]
