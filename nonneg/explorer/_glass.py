"""Predictions of a glass-box classifier, with the features that are evidence for them."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nonneg.explorer._answers import Evidence, Prediction
from nonneg.explorer._feature_set import FeatureSet
from nonneg.features import Features
from nonneg.search import select_columns

_MAX_EVIDENCE = 5  # features listed per prediction


class GlassBox:
    """The linear head of a `NonNegativeClassifier`, applied to the codes shown.

    Args:
        path: the classifier's folder.
        features: the features shown: those the classifier was fitted on, or a selection or reordering of them.
            Features that are missing count as 0.
    """

    def __init__(self, path: Path, features: Features) -> None:
        from nonneg.convert import NonNegativeClassifier  # imports torch

        head = NonNegativeClassifier.from_pretrained(path)
        self.coef: npt.NDArray[np.float64] = select_columns(head.coef_, features, f"the embedding of {path}")
        self.intercept: npt.NDArray[np.float64] = head.intercept_
        # Integer classes are the numbers of labels.
        is_number = head.classes_.dtype.kind in "iu"
        self.classes = [features.label_name(int(label)) if is_number else str(label) for label in head.classes_]
        columns = features.model_columns
        shown = features.shape[1] if columns is None else int((columns >= 0).sum())
        self.missing = head.coef_.shape[1] - shown

    def prediction(self, features: FeatureSet, unit: npt.NDArray[Any]) -> Prediction:
        """Classify a code `(features,)` of length 1, in which features that are switched off are 0."""
        scores = self.coef @ unit + self.intercept
        likelihoods = np.exp(scores - scores.max())
        best = int(scores.argmax())
        values = self.coef[best] * unit
        order = np.argsort(-values, kind="stable")[: min(_MAX_EVIDENCE, int((values > 0).sum()))]
        return Prediction(
            label=self.classes[best],
            probability=float(likelihoods[best] / likelihoods.sum()),
            score=float(scores[best]),
            intercept=float(self.intercept[best]),
            evidence=tuple(Evidence(caption=features.caption(int(i)), value=float(values[i])) for i in order),
            missing=self.missing,
        )
