"""The parts of a measurement that need a run trained on pairs: class names as classifiers, agreement of the sides."""

from collections.abc import Iterator

import numpy as np

from nonneg import metrics
from nonneg.errors import InputError
from nonneg.evaluate import DECIMALS, Figure, bootstrap_error, error_figure, mean_figure, on_fastest_device
from nonneg.labels import is_labelled
from nonneg.models import Layer
from nonneg.trials._subject import TrainedSubject, embed_layers

_LAYERS: tuple[Layer, ...] = ("encoder", "projector")
_MOST_VALUES = 2**23  # of which samples are drawn again for the error of the AUC: about 15 seconds


def zero_shot(subject: TrainedSubject) -> Iterator[Figure]:
    """How often the nearest class name of a test sample is that of its class; nothing is fitted."""
    model, source = subject.model, subject.test_source
    if len(model.modality.sides) < 2:
        raise InputError(f"{subject.path} was trained on {model.modality.name}, expected pairs: names need an encoder")
    if source.labels is None or not source.label_names:
        raise InputError(f"{source.name} has no class names")
    names = model.open([name.replace("_", " ") for name in source.label_names], side=model.modality.sides[1])
    classes = embed_layers(model, names)
    rows = np.flatnonzero(is_labelled(source.labels))
    numbers = np.arange(len(source.label_names))
    for layer in _LAYERS:
        samples = on_fastest_device(subject.whole[layer].codes[rows])
        for k, key, title in ((1, "zero_shot", "zero-shot from class names"), (5, "zero_shot_at_5", "… among 5")):
            found = metrics.group_recall_at_k(samples, classes[layer].codes, source.labels[rows], numbers, k)
            yield mean_figure(key, layer, title, found.cpu().numpy(), f"Zero-shot: {len(numbers)} class names")


def agreement(subject: TrainedSubject) -> Iterator[Figure]:
    """Whether a feature's value on a sample tells if it is active on the sample's partner."""
    found = subject.model.modality.partners(subject.test_source) if subject.model.modality.sides else None
    if found is None:
        raise InputError(f"{subject.test_source.name} has no pairs of two sides")
    partners = embed_layers(subject.model, found[0])
    first, second = subject.whole["projector"].codes, partners["projector"].codes
    auc = metrics.partner_auc(first, second)
    samples, width = first.shape
    error = float("nan")  # with fewer rows, the AUC of a feature takes few values: they would not tell
    if samples * width <= _MOST_VALUES:
        error = bootstrap_error(lambda rows: metrics.partner_auc(first[rows], second[rows]).value, samples, samples)
    variant = f"AUC of partners: median over {auc.defined} features, {len(subject.test_source):,} pairs"
    yield error_figure("partner_auc", "projector", "AUC of a partner's feature", auc.value, error, DECIMALS, variant)
