"""What a glass-box classifier says of a sample, and which features say it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nonneg.errors import InputError
from nonneg.explorer._answers import Evidence, Prediction
from nonneg.explorer._feature_set import FeatureSet

_EVIDENCE = 5  # features that are named


class GlassBox:
    """The linear head of a `NonNegativeClassifier`, on the codes that are shown.

    Args:
        path: the classifier's folder.
        features: how many features the codes have.
    """

    def __init__(self, path: Path, features: int) -> None:
        from nonneg.convert import NonNegativeClassifier

        head = NonNegativeClassifier.from_pretrained(path)
        if head.coef_.shape[1] != features:
            raise InputError(f"{path} has {head.coef_.shape[1]} features, expected {features}, as those that are shown")
        self.coef: npt.NDArray[np.float64] = head.coef_
        self.intercept: npt.NDArray[np.float64] = head.intercept_
        self.classes: Sequence[str] = [str(label) for label in head.classes_]

    def prediction(self, features: FeatureSet, unit: npt.NDArray[Any]) -> Prediction:
        """Of a code of length 1, `(features,)`; features that are switched off are 0 in it."""
        scores = self.coef @ unit + self.intercept
        likely = np.exp(scores - scores.max())
        best = int(scores.argmax())
        added = self.coef[best] * unit
        order = np.argsort(-added, kind="stable")[: min(_EVIDENCE, int((added > 0).sum()))]
        return Prediction(
            label=self._name(features, best),
            probability=float(likely[best] / likely.sum()),
            score=float(scores[best]),
            intercept=float(self.intercept[best]),
            evidence=tuple(Evidence(caption=features.caption(int(i)), value=float(added[i])) for i in order),
        )

    def _name(self, features: FeatureSet, place: int) -> str:
        """Classes by number are called as the features' labels are."""
        label, names = self.classes[place], features.features.label_names
        return names[int(label)] if label.isdigit() and int(label) < len(names) else label
