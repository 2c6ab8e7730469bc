"""`measure_features`: the figures of one subject, with notes on what could not be measured."""

from collections.abc import Callable, Mapping
from typing import Any

from nonneg.errors import InputError
from nonneg.evaluate._figure import Figure
from nonneg.evaluate._measurement import Measured
from nonneg.evaluate._parts import PARTS, Part
from nonneg.evaluate._subject import Subject


def measure_features(
    subject: Subject, parts: Mapping[str, Part] = PARTS, on_start: Callable[[str], Any] = lambda part: None
) -> Measured:
    """Measure the features of one subject.

    A part that the subject's data does not support becomes a note instead of an error.

    Args:
        subject: features to fit on and to evaluate on, from `split_features`.
        parts: name to part.
        on_start: called with the name of each part when it starts.

    Example:
        >>> import numpy as np
        >>> from nonneg.evaluate import split_features
        >>> from nonneg.features import Features
        >>> labels = np.arange(100) % 2
        >>> features = Features(np.eye(2, dtype=np.float32)[labels], labels=labels)
        >>> measure_features(split_features(features)).figures["probe", "projector"].value
        1.0
    """
    figures: dict[tuple[str, str], Figure] = {}
    notes, without_probe = [], []
    for name, part in parts.items():
        if part.needs_probe and not subject.train:
            without_probe.append(name)
            continue
        on_start(name)
        try:
            found = list(part.figures(subject))
            figures |= {(figure.key, figure.layer): figure for figure in found}
            if not found:
                notes.append(f"{name} could not be measured: too few samples are labelled")
        except InputError as error:
            if part.must_succeed:
                raise
            notes.append(f"{name} could not be measured: {error}")
    if without_probe:
        notes.append(f"not measured, because {subject.path} has {subject.protocol}: {', '.join(without_probe)}")
    return Measured(subject.path, subject.seed, subject.protocol, figures, subject.samples, tuple(notes))
