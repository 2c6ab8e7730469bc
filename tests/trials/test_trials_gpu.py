"""Trials on a CUDA device. Run by `make test-gpu`."""

import dataclasses

import numpy as np
import pytest
import torch

from nonneg.evaluate import linear_probe, neighbour_hits
from nonneg.features import Features
from nonneg.modalities.images import Images, ViewConfig, open_source
from nonneg.modalities.images.corruptions import KINDS, corrupt
from nonneg.models import Model, ModelConfig
from nonneg.studies import plan_for, reproduce
from nonneg.training import load_recipe, train
from nonneg.trials import PARTS, augmented_probe, fine_tune, measure
from nonneg.trials._labelled_training import correctly_predicted, fit, labelled_config, linear_head, prepare_trial

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

TRAIN, TEST = open_source("digits"), open_source("digits", "test")


def features(seed: int) -> Features:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, 600)
    codes = np.eye(5, 40)[labels] + rng.normal(0, 0.7, (600, 40))
    return Features(np.maximum(codes, 0).astype(np.float32), labels=labels)


def test_probe_and_neighbours_equal_those_of_the_cpu():
    train_features, test_features = features(0), features(1)
    ours, theirs = (linear_probe(train_features, test_features, device=device) for device in ("cuda", "cpu"))
    assert ours.C == theirs.C and (ours.hits == theirs.hits).mean() > 0.995
    ours, theirs = (neighbour_hits(train_features, test_features, device=device) for device in ("cuda", "cpu"))
    assert (ours == theirs).mean() > 0.995


@pytest.mark.parametrize("kind", KINDS)
def test_corruptions_equal_those_of_the_cpu(kind):
    images = torch.from_numpy(open_source("shapes").samples[:50].copy())
    ours, theirs = (corrupt(images.to(device), kind, 4).cpu().int() for device in ("cuda", "cpu"))
    assert float((ours - theirs).abs().float().mean()) < 0.5


def test_training_with_labels_is_as_accurate_as_on_the_cpu():
    torch.manual_seed(0)
    model = Model(ModelConfig("convnet_8", Images(channels=1)))
    for work in (fine_tune, augmented_probe):
        ours, theirs = (work(model, TRAIN, TEST, epochs=6, device=device).accuracy for device in ("cuda", "cpu"))
        assert ours == pytest.approx(theirs, abs=0.06)


def test_recorded_steps_give_the_same_accuracy_as_plain_ones(monkeypatch):
    torch.manual_seed(0)
    model = Model(ModelConfig("convnet_8", Images(channels=1)))
    views = Images(views=ViewConfig(crop_least=0.6)).fitted(TRAIN)
    config = labelled_config(model, views, seed=0, epochs=6, batch_size=256, lr=0.05, weight_decay=0.0)
    replays = []
    replay = torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: replays.append(replay(graph)))

    def curve(records):
        trial = prepare_trial("trial", model, TRAIN, TEST, config, "cuda")
        assert trial.is_recordable
        trial = dataclasses.replace(trial, is_recordable=records)
        encoder = trial.model.train().encoder
        head = linear_head(model.encoder_width, trial.classes).to("cuda")
        return fit(
            trial,
            lambda views: head(trial.codes(views, "encoder")),
            [*encoder.parameters(), *head.parameters()],
            lambda: correctly_predicted(head, *trial.test_codes("encoder")),
            progress=False,
        ).curve

    recorded = curve(records=True)
    assert len(replays) > 20
    before = len(replays)
    assert recorded == pytest.approx(curve(records=False), abs=0.02) and len(replays) == before


def test_a_resnet_can_be_fine_tuned_with_every_head():
    model = Model(ModelConfig("resnet18", Images(channels=1, stem="small"), features=32, projector_width=64))
    few = TRAIN.take(np.arange(300))
    for settings in ({}, {"rectify": "relu", "rectify_weight": True}, {"projector": True, "rectify": "relu"}):
        found = fine_tune(model, few, TEST, epochs=2, batch_size=64, **settings)
        assert len(found.curve) == 2 and all(0 <= each <= 1 for each in found.curve)


def test_every_part_of_a_run_is_measured_on_the_gpu(tmp_path):
    # Few samples: the many logistic probes wait for each kernel.
    few = {"x_train": TRAIN.samples[:300], "y_train": TRAIN.labels[:300]}
    np.savez(tmp_path / "few.npz", **few, x_test=TEST.samples[:100], y_test=TEST.labels[:100])
    config = dataclasses.replace(load_recipe("digits"), data=str(tmp_path / "few.npz"), epochs=2, warmup_epochs=1)
    run = train(
        dataclasses.replace(config, rectify="none", accelerator="cuda", compile="off"), tmp_path / "cl", progress=False
    )
    # Folds are fitted on the CPU; the others need graphs or pairs.
    elsewhere = ("folds", "public-split", "partners", "zero-shot", "agreement")
    parts = [part for part in PARTS if part not in elsewhere]
    found = measure(str(run), parts=parts, probe_epochs=1, fine_tune_epochs=1, progress=False)
    (one,) = found.columns["cl"]
    assert one.notes == ()
    assert {key for key, _ in one.figures} >= {"probe", "neighbours", "sepin_at_1", "corruptions", "fine_tuning"}


@pytest.mark.slow  # it compiles more than twenty steps
@pytest.mark.timeout(1800)
def test_reproduce_runs_several_trainings_in_one_process(tmp_path):
    plan = plan_for(
        "digits", seeds=2, epochs=1, probe_epochs=1, fine_tune_epochs=1, supervised_epochs=1, ablation_epochs=0
    )
    text = reproduce(plan, tmp_path / "runs", tmp_path / "digits.md").read_text()
    assert "Not done" not in text and "NCE + MLP" in text and "stable at" in text
