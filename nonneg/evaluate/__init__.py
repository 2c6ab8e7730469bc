"""Evaluation protocols over `Features` and trained runs; `measure` gathers them."""

from nonneg.evaluate._augmented import AugmentedProbe, augmented_probe
from nonneg.evaluate._carry import carry_names, match_folders, reordered
from nonneg.evaluate._changed import viewed_source
from nonneg.evaluate._corruptions import KINDS, corrupt, corrupted_source
from nonneg.evaluate._figures import PARTS, Figure, fine_tuning_figure
from nonneg.evaluate._fine_tune import FineTuned, fine_tune
from nonneg.evaluate._logistic import fit_logistic
from nonneg.evaluate._matching import Matching, aligned, match_features
from nonneg.evaluate._measure import USUAL_PARTS, measure, measure_subject
from nonneg.evaluate._measurement import Measured, Measurement, require_table
from nonneg.evaluate._naming import Suggestion, suggest_names
from nonneg.evaluate._neighbours import neighbour_hits
from nonneg.evaluate._place import placed
from nonneg.evaluate._probe import FittedProbe, Probe, fit_probe, linear_probe
from nonneg.evaluate._scarce import few_labels, noisy_labels
from nonneg.evaluate._statistics import Difference, bootstrap_interval, paired_difference
from nonneg.evaluate._subject import Subject, open_features, open_subject, split_sources, test_source

__all__ = [
    "KINDS",
    "PARTS",
    "USUAL_PARTS",
    "AugmentedProbe",
    "Difference",
    "Figure",
    "FineTuned",
    "FittedProbe",
    "Matching",
    "Measured",
    "Measurement",
    "Probe",
    "Subject",
    "Suggestion",
    "aligned",
    "augmented_probe",
    "bootstrap_interval",
    "carry_names",
    "corrupt",
    "corrupted_source",
    "few_labels",
    "fine_tune",
    "fine_tuning_figure",
    "fit_logistic",
    "fit_probe",
    "linear_probe",
    "match_features",
    "match_folders",
    "measure",
    "measure_subject",
    "neighbour_hits",
    "noisy_labels",
    "open_features",
    "open_subject",
    "paired_difference",
    "placed",
    "reordered",
    "require_table",
    "split_sources",
    "suggest_names",
    "test_source",
    "viewed_source",
]
