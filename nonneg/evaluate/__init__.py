"""What `Features` are worth: probes, neighbours, matching, names and error bars. Nothing here needs a model."""

from nonneg.evaluate._carry import carry_names, match_folders, reordered
from nonneg.evaluate._clusters import Clustering, clustering
from nonneg.evaluate._divisions import SplitProbes, published_split, random_splits
from nonneg.evaluate._folds import FoldProbes, cross_validation
from nonneg.evaluate._logistic import fit_logistic
from nonneg.evaluate._matching import Matching, aligned, match_features
from nonneg.evaluate._measurement import (
    DECIMALS,
    Figure,
    Measured,
    Measurement,
    error_figure,
    finite_or_none,
    mean_figure,
    require_table,
)
from nonneg.evaluate._neighbours import neighbour_hits
from nonneg.evaluate._parts import PARTS, Part, measure_features, on_fastest_device
from nonneg.evaluate._probe import FittedProbe, Probe, Standardiser, fit_probe, linear_probe, require_same_classes
from nonneg.evaluate._scarce import few_labels, noisy_labels
from nonneg.evaluate._statistics import Difference, bootstrap_error, bootstrap_interval, paired_difference
from nonneg.evaluate._subject import (
    Subject,
    is_vector_file,
    open_features,
    sample_digest,
    split_features,
    split_rows,
)
from nonneg.features import Suggestion
from nonneg.layout import markdown_table, rich_table
from nonneg.naming import suggest_names

__all__ = [
    "DECIMALS",
    "PARTS",
    "Clustering",
    "Difference",
    "Figure",
    "FittedProbe",
    "FoldProbes",
    "Matching",
    "Measured",
    "Measurement",
    "Part",
    "Probe",
    "SplitProbes",
    "Standardiser",
    "Subject",
    "Suggestion",
    "aligned",
    "bootstrap_error",
    "bootstrap_interval",
    "carry_names",
    "clustering",
    "cross_validation",
    "error_figure",
    "few_labels",
    "finite_or_none",
    "fit_logistic",
    "fit_probe",
    "is_vector_file",
    "linear_probe",
    "markdown_table",
    "match_features",
    "match_folders",
    "mean_figure",
    "measure_features",
    "neighbour_hits",
    "noisy_labels",
    "on_fastest_device",
    "open_features",
    "paired_difference",
    "published_split",
    "random_splits",
    "reordered",
    "require_same_classes",
    "require_table",
    "rich_table",
    "sample_digest",
    "split_features",
    "split_rows",
    "suggest_names",
]
