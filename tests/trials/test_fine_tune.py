"""Fine-tuning: all weights of a copy of the encoder are trained with labels."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from nonneg.errors import InputError
from nonneg.modalities.images import Images, ViewConfig, open_source
from nonneg.modalities.images.encoders import Frozen
from nonneg.models import Model
from nonneg.trials import augmented_probe, fine_tune
from nonneg.trials._fine_tune import share_of_each_class

TRAIN, TEST = open_source("digits", "train"), open_source("digits", "test")
MILD = Images(views=ViewConfig(crop_least=0.6)).fitted(TRAIN)
QUICK = {"epochs": 2, "batch_size": 128, "views": MILD, "device": "cpu"}
FEW = {**QUICK, "epochs": 4, "fraction": 0.05}


def test_fine_tuning_learns_the_labels(trained):
    tuned = fine_tune(trained, TRAIN, TEST, **QUICK)
    assert tuned.accuracy > 0.85
    assert len(tuned.curve) == 2 and tuned.accuracy == tuned.curve[-1] and tuned.samples == len(TRAIN)


def test_the_encoder_is_trained_too(fresh):
    frozen = augmented_probe(fresh, TRAIN, TEST, learning_rate=0.05, **QUICK)
    assert fine_tune(fresh, TRAIN, TEST, **QUICK).accuracy > frozen.accuracy + 0.2


def test_a_trained_model_needs_fewer_labels(trained, fresh):
    after, before = fine_tune(trained, TRAIN, TEST, **FEW), fine_tune(fresh, TRAIN, TEST, **FEW)
    assert after.samples == before.samples == 70
    assert after.accuracy > before.accuracy + 0.1


def test_the_result_depends_on_the_seed_alone(trained):
    first = fine_tune(trained, TRAIN, TEST, **FEW)
    assert fine_tune(trained, TRAIN, TEST, **FEW) == first
    assert fine_tune(trained, TRAIN, TEST, seed=1, **FEW) != first


def test_the_model_and_the_callers_random_state_are_not_changed(trained):
    model = copy.deepcopy(trained).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    fine_tune(model, TRAIN, TEST, **FEW)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_frozen_weights_are_trained_all_the_same(trained):
    frozen = copy.deepcopy(trained).requires_grad_(False)
    frozen.encoder = Frozen(frozen.encoder)
    assert fine_tune(frozen, TRAIN, TEST, **FEW) == fine_tune(trained, TRAIN, TEST, **FEW)


def test_relu_changes_nothing_on_an_encoder_that_ends_in_relu(trained):
    plain = fine_tune(trained, TRAIN, TEST, **FEW)
    assert fine_tune(trained, TRAIN, TEST, rectify="relu", **FEW) == plain
    assert fine_tune(trained, TRAIN, TEST, rectify="softplus", **FEW) != plain


def test_unlabelled_samples_are_left_out(trained):
    half_labelled = np.where(np.arange(len(TRAIN)) % 2, TRAIN.labels, -1)
    tuned = fine_tune(trained, replace(TRAIN, labels=half_labelled), TEST, **{**FEW, "fraction": 1.0})
    assert tuned.samples == len(TRAIN) // 2


def test_a_share_is_taken_of_every_class_and_smaller_shares_are_subsets():
    labels = np.repeat([0, 1, 2, -1], [100, 40, 3, 20])
    rows = np.flatnonzero(labels >= 0)
    small, large = (share_of_each_class(labels, rows, fraction, seed=0) for fraction in (0.1, 0.5))
    assert np.bincount(labels[small]).tolist() == [10, 4, 1]
    assert np.bincount(labels[large]).tolist() == [50, 20, 2]
    assert set(small) < set(large)
    assert not np.array_equal(small, share_of_each_class(labels, rows, 0.1, seed=1))
    assert np.array_equal(share_of_each_class(labels, rows, 1.0, seed=0), rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fraction": 0.0}, "fraction is 0.0"),
        ({"fraction": 1.5}, "fraction is 1.5"),
        ({"rectify": "top_k"}, "rectify is 'top_k'"),
        ({"train": replace(TRAIN, labels=None)}, "train samples have no labels"),
        ({"test": replace(TEST, samples=TEST.samples.repeat(2, axis=3))}, "2 channels.* 1"),
        ({"batch_size": 1}, "batch_size is 1"),
    ],
)
def test_invalid_arguments_are_errors_that_name_the_argument(trained, change, message):
    with pytest.raises(InputError, match=message):
        fine_tune(**{"model": trained, "train": TRAIN, "test": TEST, "device": "cpu", **change})


def test_batch_norm_of_the_projector_does_not_use_test_statistics(trained):
    torch.manual_seed(0)
    model = Model(replace(trained.config, projector_batch_norm=True))
    order = np.argsort(TEST.labels, kind="stable")
    whole, by_class = (
        fine_tune(model, TRAIN, TEST.take(rows), projector=True, **QUICK) for rows in (order, order[::-1])
    )
    first = fine_tune(model, TRAIN, TEST.take(order[:1]), projector=True, **QUICK)
    assert whole == by_class and first.accuracy in (0, 1)


@pytest.mark.parametrize(
    "settings", [{"projector": True}, {"projector": True, "rectify": "relu"}, {"rectify_weight": True}]
)
def test_a_projector_and_a_rectified_weight_can_be_trained(settings, trained):
    first = fine_tune(trained, TRAIN, TEST, **{**QUICK, "epochs": 4}, **settings)
    assert first.accuracy > 0.7 and first == fine_tune(trained, TRAIN, TEST, **{**QUICK, "epochs": 4}, **settings)
    assert first.curve != fine_tune(trained, TRAIN, TEST, **{**QUICK, "epochs": 4}).curve
