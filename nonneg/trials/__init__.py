"""What a trained run is worth: trials that need its model and its data, and `measure`, which gathers them."""

from nonneg.trials._augmented import augmented_probe
from nonneg.trials._fine_tune import fine_tune
from nonneg.trials._labelled_training import LabelledResult
from nonneg.trials._measure import PARTS, USUAL_PARTS, measure, measure_subject
from nonneg.trials._parts import fine_tuning_figure
from nonneg.trials._subject import (
    TrainedSubject,
    is_run,
    open_run,
    open_subject,
    open_training_data,
    split_sources,
    test_source,
)
from nonneg.trials._views import embed_view

__all__ = [
    "PARTS",
    "USUAL_PARTS",
    "LabelledResult",
    "TrainedSubject",
    "augmented_probe",
    "embed_view",
    "fine_tune",
    "fine_tuning_figure",
    "is_run",
    "measure",
    "measure_subject",
    "open_run",
    "open_subject",
    "open_training_data",
    "split_sources",
    "test_source",
]
