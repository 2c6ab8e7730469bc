"""The augmented probe: a linear layer trained on random views of a frozen model."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from nonneg.codes import dense
from nonneg.errors import InputError
from nonneg.modalities.images import Images, ViewConfig, open_source
from nonneg.modalities.images.corruptions import corrupted_source
from nonneg.models import Model, ModelConfig
from nonneg.training import TrainConfig, epoch_order
from nonneg.trials import augmented_probe
from nonneg.trials._labelled_training import fit, prepare_trial

TRAIN, TEST = open_source("digits", "train"), open_source("digits", "test")
# Without flips: a flipped digit is another character.
MILD = Images(views=ViewConfig(crop_least=0.6)).fitted(TRAIN)
QUICK = {"epochs": 3, "batch_size": 128, "views": MILD, "device": "cpu"}


def encoded(model, source):
    return dense(model.embed(source, "encoder", media=False).codes)


def test_a_trained_model_is_better_than_an_untrained_one(trained, fresh):
    # Standardised: otherwise the trained features might only be learnt faster because their scale is larger.
    after = augmented_probe(trained, TRAIN, TEST, standardise=True, **QUICK)
    before = augmented_probe(fresh, TRAIN, TEST, standardise=True, **QUICK)
    assert after.accuracy > 0.94
    assert after.accuracy > before.accuracy


def test_both_layers_can_be_probed(trained):
    encoder = augmented_probe(trained, TRAIN, TEST, **QUICK)
    projector = augmented_probe(trained, TRAIN, TEST, layer="projector", **QUICK)
    assert encoder.accuracy > 0.85 and projector.accuracy > 0.7
    assert encoder != projector


def test_the_accuracy_is_that_of_the_last_epoch(trained):
    probe = augmented_probe(trained, TRAIN, TEST, **QUICK)
    assert len(probe.curve) == 3 and probe.accuracy == probe.curve[-1]


def test_the_result_depends_on_the_seed_alone(trained):
    first = augmented_probe(trained, TRAIN, TEST, **QUICK)
    assert augmented_probe(trained, TRAIN, TEST, **QUICK) == first
    assert augmented_probe(trained, TRAIN, TEST, seed=1, **QUICK) != first


def test_the_model_and_the_callers_random_state_are_not_changed(trained):
    model = copy.deepcopy(trained).train()
    model.projector.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    augmented_probe(model, TRAIN, TEST, **QUICK)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.encoder.training and not model.projector.training
    assert torch.equal(torch.get_rng_state(), state)


def test_unlabelled_samples_are_left_out(trained):
    def with_unlabelled(source):
        labels = np.concatenate((source.labels, np.full(50, -1)))
        ids = (*source.ids, *(f"unlabelled-{i}" for i in range(50)))
        samples = np.concatenate((source.samples, 255 - source.samples[:50]))
        return replace(source, samples=samples, labels=labels, ids=ids)

    plain = augmented_probe(trained, TRAIN, TEST, **QUICK)
    assert augmented_probe(trained, with_unlabelled(TRAIN), with_unlabelled(TEST), **QUICK) == plain


def test_corrupted_images_can_be_used_for_training_and_for_evaluation(trained):
    blurred_train, blurred_test = (corrupted_source(source, "gaussian_blur", 5) for source in (TRAIN, TEST))
    plain = augmented_probe(trained, TRAIN, TEST, **QUICK)
    trained_clean = augmented_probe(trained, TRAIN, blurred_test, **QUICK)
    trained_blurred = augmented_probe(trained, blurred_train, blurred_test, **QUICK)
    assert trained_clean.accuracy < trained_blurred.accuracy < plain.accuracy


def test_without_views_it_equals_plain_sgd_with_a_cosine_schedule(trained):
    probe = augmented_probe(trained, TRAIN, TEST, epochs=4, views=Images().fitted(TRAIN), device="cpu")
    x, test_x = (torch.from_numpy(encoded(trained, source)) for source in (TRAIN, TEST))
    y, test_y = (torch.from_numpy(source.labels) for source in (TRAIN, TEST))
    weight, bias = torch.zeros(10, x.shape[1], requires_grad=True), torch.zeros(10, requires_grad=True)
    solver = torch.optim.SGD([weight, bias], 0.1, 0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(solver, 4 * (len(x) // 256))
    curve = []
    for epoch in range(4):
        for rows in epoch_order(len(x), 0, epoch).split(256)[:-1]:
            solver.zero_grad()
            F.cross_entropy(F.linear(x[rows], weight, bias), y[rows]).backward()
            solver.step()
            schedule.step()
        curve.append(float((F.linear(test_x, weight, bias).argmax(1) == test_y).double().mean()))
    assert probe.curve == pytest.approx(curve, abs=1.5 / len(TEST))  # one sample may lie on a decision boundary


def test_the_default_views_are_crops_and_flips(trained):
    views = replace(trained.modality, views=ViewConfig(size=8, crop_least=0.08, flip_p=0.5))
    settings = {"epochs": 1, "device": "cpu"}
    default = augmented_probe(trained, TRAIN, TEST, **settings)
    assert augmented_probe(trained, TRAIN, TEST, views=views, **settings) == default


def test_images_larger_than_the_models_views_are_cropped():
    modality = Images(channels=1, height=8, width=8, centre=8 / 12, views=ViewConfig(size=8))
    model = Model(ModelConfig("convnet_8", modality))
    large = replace(TRAIN, samples=np.pad(TRAIN.samples, ((0, 0), (2, 2), (2, 2), (0, 0)))).take(np.arange(100))
    config = TrainConfig(epochs=1, batch_size=50, warmup_epochs=0, modality=modality)
    trial = prepare_trial("trial", model, large, large, config, "cpu")
    codes, labels = trial.test_codes("encoder")
    np.testing.assert_allclose(codes.numpy(), encoded(model, TRAIN.take(np.arange(100))), rtol=1e-6)
    assert labels.tolist() == large.labels.tolist()
    shapes = set()

    def logits(views):
        shapes.add(tuple(views.shape))
        return torch.zeros(len(views), 10, requires_grad=True)

    parameter = torch.zeros(1, requires_grad=True)
    found = fit(trial, logits, [parameter], lambda: torch.tensor([True, False]), progress=False)
    assert found.curve == (0.5,) and found.hits.tolist() == [True, False]
    assert shapes == {(50, 1, 8, 8)}


def test_a_batch_size_above_the_number_of_samples_uses_all_of_them(trained):
    few = TRAIN.take(np.arange(60))
    assert augmented_probe(trained, few, TEST, epochs=20, device="cpu", views=MILD).accuracy > 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": replace(TRAIN, labels=None)}, "train samples have no labels"),
        ({"test": replace(TEST, labels=np.full(len(TEST), -1))}, "test samples have no labels"),
        ({"test": replace(TEST, samples=TEST.samples.repeat(2, axis=3))}, "2 channels.* 1"),
        ({"test": replace(TEST, label_names=tuple("abcdefghij"))}, "label names"),
        ({"train": TRAIN.take(TRAIN.labels == 3)}, "one class"),
        ({"layer": "both"}, "layer is 'both'"),
        ({"learning_rate": 0.0}, "lr is 0.0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"learning_rate": 1e38, "epochs": 3}, "loss is .* learning_rate"),
    ],
)
def test_invalid_arguments_are_errors_that_name_the_argument(trained, change, message):
    with pytest.raises(InputError, match=message):
        augmented_probe(**{"model": trained, "train": TRAIN, "test": TEST, "device": "cpu", **change})
