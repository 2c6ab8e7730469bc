"""The augmented probe: what a linear layer learns on cropped images, and that it changes nothing else."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from nonneg.errors import InputError
from nonneg.modalities.images import ViewConfig, open_source
from nonneg.models import Model, ModelConfig, load
from nonneg.training import TrainConfig, load_recipe, train
from nonneg.training.loop import epoch_order
from nonneg.trials._augmented import augmented_probe
from nonneg.trials._labelled_training import CROP_AND_FLIP, fit, prepared
from nonneg.trials.images._corruptions import corrupted_source

TRAIN, TEST = open_source("digits", "train"), open_source("digits", "test")
MILD = ViewConfig(crop_least=0.6)  # a mirrored digit is another one
QUICK = {"epochs": 3, "batch_size": 128, "views": MILD, "device": "cpu"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    recipe = replace(load_recipe("digits"), epochs=5, warmup_epochs=1, accelerator="cpu")
    return load(train(recipe, tmp_path_factory.mktemp("runs") / "digits", progress=False))


@pytest.fixture(scope="module")
def fresh(trained):
    torch.manual_seed(0)
    return Model(trained.config)


def encoded(model, source):
    features = model.embed(source, "encoder", media=False)
    return features.codes.toarray() if features.is_sparse else features.codes


def test_a_trained_model_does_better_than_a_fresh_one(trained, fresh):
    # Standardised, or it would only be the larger scale of trained features that is learnt faster.
    known = augmented_probe(trained, TRAIN, TEST, standardise=True, **QUICK)
    unknown = augmented_probe(fresh, TRAIN, TEST, standardise=True, **QUICK)
    assert known.accuracy > 0.94
    assert known.accuracy > unknown.accuracy


def test_both_layers_can_be_probed(trained):
    encoder = augmented_probe(trained, TRAIN, TEST, **QUICK)
    projector = augmented_probe(trained, TRAIN, TEST, layer="projector", **QUICK)
    assert encoder.accuracy > 0.85 and projector.accuracy > 0.7
    assert encoder != projector


def test_the_accuracy_is_that_of_the_last_epoch(trained):
    probe = augmented_probe(trained, TRAIN, TEST, **QUICK)
    assert len(probe.curve) == 3 and probe.accuracy == probe.curve[-1]


def test_a_seed_gives_the_same_figures_again_and_another_one_others(trained):
    first = augmented_probe(trained, TRAIN, TEST, **QUICK)
    assert augmented_probe(trained, TRAIN, TEST, **QUICK) == first
    assert augmented_probe(trained, TRAIN, TEST, seed=1, **QUICK) != first


def test_the_model_and_the_callers_random_numbers_stay_as_they_were(trained):
    model = copy.deepcopy(trained).train()
    model.projector.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    augmented_probe(model, TRAIN, TEST, **QUICK)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.encoder.training and not model.projector.training
    assert torch.equal(torch.get_rng_state(), state)


def test_samples_without_a_label_are_left_out_everywhere(trained):
    def with_strangers(source):
        labels = np.concatenate((source.labels, np.full(50, -1)))
        ids = (*source.ids, *(f"stranger-{i}" for i in range(50)))
        images = np.concatenate((source.images, 255 - source.images[:50]))
        return replace(source, images=images, labels=labels, ids=ids)

    plain = augmented_probe(trained, TRAIN, TEST, **QUICK)
    assert augmented_probe(trained, with_strangers(TRAIN), with_strangers(TEST), **QUICK) == plain


def test_corrupted_images_can_be_tested_and_trained_on(trained):
    blurred_train, blurred_test = (corrupted_source(source, "gaussian_blur", 5) for source in (TRAIN, TEST))
    plain = augmented_probe(trained, TRAIN, TEST, **QUICK)
    unprepared = augmented_probe(trained, TRAIN, blurred_test, **QUICK)
    prepared_for_it = augmented_probe(trained, blurred_train, blurred_test, **QUICK)
    assert unprepared.accuracy < prepared_for_it.accuracy < plain.accuracy


def test_without_views_it_is_plain_sgd_along_a_cosine(trained):
    probe = augmented_probe(trained, TRAIN, TEST, epochs=4, views=ViewConfig(), device="cpu")
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
    assert probe.curve == pytest.approx(curve, abs=1.5 / len(TEST))  # one sample on a boundary may fall either way


def test_by_default_views_are_crops_and_mirror_images_and_nothing_else():
    assert ViewConfig(crop_least=0.08, flip_p=0.5) == CROP_AND_FLIP


def test_what_a_model_was_trained_to_cut_out_is_cut_out():
    model = Model(ModelConfig("convnet_8", channels=1, image_size=8, resize=12))
    large = replace(TRAIN, images=np.pad(TRAIN.images, ((0, 0), (2, 2), (2, 2), (0, 0)))).take(np.arange(100))
    trial = prepared("trial", model, large, large, "cpu")
    codes, labels = trial.test_codes("encoder")
    np.testing.assert_allclose(codes.numpy(), encoded(model, TRAIN.take(np.arange(100))), rtol=1e-6)
    assert labels.tolist() == large.labels.tolist()
    shapes = set()

    def logits(views):
        shapes.add(tuple(views.shape))
        return torch.zeros(len(views), 10, requires_grad=True)

    parameter = torch.zeros(1, requires_grad=True)
    config = TrainConfig(epochs=1, batch_size=50, warmup_epochs=0)
    curve, hits = fit("trial", trial, logits, [parameter], lambda: torch.tensor([True, False]), config, False)
    assert curve == (0.5,) and hits.tolist() == [True, False]
    assert shapes == {(50, 1, 8, 8)}


def test_a_batch_larger_than_the_data_is_all_of_it(trained):
    few = TRAIN.take(np.arange(60))
    assert augmented_probe(trained, few, TEST, epochs=20, device="cpu", views=MILD).accuracy > 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": replace(TRAIN, labels=None)}, "augmented_probe: the train samples have no labels"),
        ({"test": replace(TEST, labels=np.full(len(TEST), -1))}, "augmented_probe: the test samples have no labels"),
        ({"test": open_source("shapes", "test")}, "the test images have 3 channels, the model expects 1"),
        ({"test": replace(TEST, label_names=tuple("abcdefghij"))}, "name their labels differently"),
        ({"train": TRAIN.take(TRAIN.labels == 3)}, "are of one class, expected 2 classes or more"),
        ({"layer": "both"}, "layer is 'both', expected encoder or projector"),
        ({"learning_rate": 0.0}, "lr is 0.0, expected more than 0"),
        ({"epochs": 0}, "epochs is 0, expected at least 1"),
        ({"learning_rate": 1e38, "epochs": 3}, "the loss became .* lower learning_rate"),
    ],
)
def test_what_cannot_be_probed_is_refused(trained, change, message):
    with pytest.raises(InputError, match=message):
        augmented_probe(**{"model": trained, "train": TRAIN, "test": TEST, "device": "cpu", **change})
