import dataclasses
import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning_fabric.loggers import CSVLogger
from PIL import Image

import nonneg
from nonneg.errors import InputError, StoppedError, UntrainableError
from nonneg.features import Features
from nonneg.modalities.images import open_source
from nonneg.models import embed_data
from nonneg.training import load_recipe, read_log, train
from nonneg.training.loop import epoch_order

SHORT = dataclasses.replace(load_recipe("digits"), epochs=2, warmup_epochs=1, accelerator="cpu")


def weights(run):
    return nonneg.load(run).state_dict()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(SHORT, tmp_path_factory.mktemp("runs") / "a", progress=False)


def test_a_run_holds_config_log_environment_and_model(run):
    assert load_recipe(str(run / "config.toml")) == SHORT
    log = read_log(run)
    assert [line["epoch"] for line in log] == [1, 2]
    assert all(math.isfinite(line["loss"]) for line in log)
    assert log[1]["loss"] < log[0]["loss"]
    assert json.loads((run / "environment.json").read_text())["packages"]["torch"] == torch.__version__
    assert nonneg.load(run).config.rectify == "relu"


def test_the_same_seed_gives_exactly_the_same_weights(run, tmp_path):
    again = weights(train(SHORT, tmp_path / "b", progress=False))
    assert all(torch.equal(tensor, again[name]) for name, tensor in weights(run).items())


def test_another_seed_gives_other_weights(run, tmp_path):
    other = weights(train(dataclasses.replace(SHORT, seed=1), tmp_path / "b", progress=False))
    assert not torch.equal(weights(run)["projector.0.weight"], other["projector.0.weight"])


@pytest.mark.parametrize(
    "change",
    [
        {"loss": "spectral", "lr": 0.001},
        {"rectify": "rep_relu"},
        {"rectify": "top_k", "top_k": 8},
        {"rectify": "none"},
        {"precision": "bf16-mixed"},
        {"precision": "64-true"},
        {"precision": "tf32"},
        {"optimiser": "lars", "lr": 0.4},
        {"optimiser": "sgd", "lr": 0.1},
        {"loss": "sup_con"},
        {"loss": "cross_entropy"},
        {"loss": "cross_entropy", "rectify_weight": True},
        {"loss": "cross_entropy", "rectify": "none"},
        {"accumulate": 2},
        {"projector_depth": 3, "projector_batch_norm": True},
        {"projector_depth": 0, "features": 512},
        {"encoder": "resnet18", "stem": "standard", "epochs": 2, "batch_size": 256},
    ],
)
def test_every_setting_lowers_its_loss(change, tmp_path):
    config = SHORT.replace(**{"epochs": 3, "batch_size": 128, **change})
    before = torch.get_float32_matmul_precision()
    log = read_log(train(config, tmp_path / "b", progress=False))
    assert log[-1]["loss"] < log[0]["loss"]
    assert torch.get_float32_matmul_precision() == before


def test_the_log_holds_all_figures(run):
    expected = {
        "epoch",
        "step",
        "loss",
        "lr",
        "sparsity",
        "live",
        "dead",
        "effective_rank",
        "probe",
        "class_consistency",
        "views_per_second",
        "seconds",
    }
    last = read_log(run)[-1]
    assert set(last) == expected
    assert last["live"] + last["dead"] == SHORT.features
    assert 0.2 < last["probe"] <= 1 and 0.1 < last["class_consistency"] <= 1 and 0.5 < last["sparsity"] < 1


def test_training_without_labels_gives_the_same_weights(run, tmp_path):
    source = open_source("digits")
    np.save(tmp_path / "images.npy", source.samples)
    unlabelled = train(dataclasses.replace(SHORT, data=str(tmp_path / "images.npy")), tmp_path / "b", progress=False)
    last = read_log(unlabelled)[-1]
    assert "probe" not in last and "class_consistency" not in last
    assert last["sparsity"] == pytest.approx(read_log(run)[-1]["sparsity"])
    assert all(torch.equal(tensor, weights(run)[name]) for name, tensor in weights(unlabelled).items())


def test_oblong_images_keep_their_shape_in_training_and_embedding(tmp_path):
    np.save(tmp_path / "images.npy", np.random.default_rng(0).integers(0, 256, (300, 8, 14, 3), dtype=np.uint8))
    run = train(dataclasses.replace(SHORT, data=str(tmp_path / "images.npy"), epochs=1), tmp_path / "b", progress=False)
    (folder,) = embed_data(str(run), str(tmp_path / "images.npy"), progress=False)
    assert Features.load(folder).pixels.shape == (300, 8, 14, 3)
    assert (nonneg.load(run).modality.height, nonneg.load(run).modality.width) == (8, 14)


@pytest.mark.parametrize("loss", ["sup_con", "cross_entropy"])
def test_a_supervised_loss_without_labels_is_an_error(loss, tmp_path):
    np.save(tmp_path / "images.npy", np.zeros((300, 8, 8), np.uint8))
    config = dataclasses.replace(SHORT, data=str(tmp_path / "images.npy"), loss=loss)
    with pytest.raises(InputError, match=f"loss is '{loss}'.*labels"):
        train(config, tmp_path / "b", progress=False)
    assert not (tmp_path / "b").exists()


def test_a_supervised_model_keeps_its_classifier(tmp_path):
    config = dataclasses.replace(SHORT, loss="cross_entropy", rectify_weight=True, epochs=6)
    model = nonneg.load(train(config, tmp_path / "b", progress=False))
    test = open_source("digits", "test")
    logits = model.logits(model(model.modality.inputs(torch.from_numpy(test.samples))))
    assert float((logits.argmax(1).numpy() == test.labels).mean()) > 0.8


def test_data_read_ahead_from_disk_gives_the_same_weights(run, tmp_path):
    np.save(tmp_path / "images.npy", open_source("digits").samples)
    for where in ("device", "disk"):
        config = dataclasses.replace(SHORT, data=str(tmp_path / "images.npy"), data_on=where)
        again = weights(train(config, tmp_path / where, progress=False))
        assert all(torch.equal(tensor, again[name]) for name, tensor in weights(run).items())


def test_a_run_whose_features_all_die_stops_with_advice(tmp_path):
    config = dataclasses.replace(SHORT, epochs=3, lr=0.3, warmup_epochs=0, loss="spectral")
    with pytest.raises(UntrainableError, match=r"128 features.*epoch \d.*rectify 'relu' at lr 0\.3.*rep_relu"):
        train(config, tmp_path / "b", progress=False)


def test_the_data_and_what_is_compiled_are_printed(tmp_path, capsys):
    train(dataclasses.replace(SHORT, epochs=1, trust=0.5), tmp_path / "b")
    printed = capsys.readouterr().err
    assert "Note: trust is not used by these settings." in printed
    assert "1,400 images of 8 x 8 x 1, all 0.1 MB on the device" in printed
    assert "nothing compiled; 32-true, 1 x cpu" in printed
    assert "Memory: about 0.1 MB for data" in printed


def test_a_cuda_graph_on_the_cpu_is_an_error_that_names_all_requirements(tmp_path):
    with pytest.raises(InputError, match=r"compile is 'graph' on 1 x cpu in 32-true with accumulate 2.*CUDA"):
        train(dataclasses.replace(SHORT, compile="graph", accumulate=2), tmp_path / "b", progress=False)


def test_any_lightning_logger_receives_the_figures(tmp_path):
    logger = CSVLogger(tmp_path / "csv", flush_logs_every_n_steps=1)
    train(SHORT, tmp_path / "b", progress=False, loggers=[logger])
    logger.save()
    text = next((tmp_path / "csv").rglob("metrics.csv")).read_text()
    assert "class_consistency" in text.splitlines()[0]
    assert len(text.splitlines()) == 3


class StatusLogger(CSVLogger):
    """Keeps the status with which it was finalised."""

    def __init__(self, folder):
        super().__init__(folder)
        self.statuses = []

    def finalize(self, status):
        self.statuses.append(status)


class StoppingLogger(StatusLogger):
    """Sends SIGTERM, as SLURM does."""

    def log_metrics(self, metrics, step=None):
        os.kill(os.getpid(), signal.SIGTERM)


def test_loggers_receive_the_status_with_which_a_run_ended(tmp_path):
    done, died, stopped = StatusLogger(tmp_path), StatusLogger(tmp_path), StoppingLogger(tmp_path)
    train(dataclasses.replace(SHORT, epochs=1), tmp_path / "done", progress=False, loggers=[done])
    dying = dataclasses.replace(SHORT, epochs=3, lr=0.3, warmup_epochs=0, loss="spectral")
    with pytest.raises(UntrainableError):
        train(dying, tmp_path / "died", progress=False, loggers=[died])
    with pytest.raises(StoppedError):
        train(SHORT, tmp_path / "stopped", progress=False, loggers=[stopped])
    assert [done.statuses, died.statuses, stopped.statuses] == [["success"], ["failed"], ["aborted"]]


class ReplacingLogger(CSVLogger):
    """Replaces the run's folder, as somebody might who removes it and starts another run there."""

    def log_metrics(self, metrics, step=None):
        folder = Path(self.root_dir) / self.name
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "other.txt").write_text("of another process")


@pytest.mark.parametrize("change", [{}, {"checkpoint_steps": 2}, {"epochs": 1}])
def test_a_run_whose_folder_was_replaced_stops_and_leaves_the_new_one_alone(change, tmp_path):
    with pytest.raises(InputError, match=r"run was replaced"):
        train(
            SHORT.replace(**change), tmp_path / "run", progress=False, loggers=[ReplacingLogger(tmp_path, name="run")]
        )
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["other.txt"]


def test_a_run_on_arrays_resumes_only_with_the_same_arrays(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (600, 8, 8), dtype=np.uint8)
    source = open_source((images, np.arange(600) % 3))
    whole = train(SHORT, tmp_path / "whole", progress=False, source=source)
    assert load_recipe(str(whole / "config.toml")).data == source.name == "array/train"
    assert "probe" in read_log(whole)[-1]
    with pytest.raises(StoppedError):
        train(SHORT, tmp_path / "stopped", progress=False, source=source, loggers=[StoppingLogger(tmp_path)])
    with pytest.raises(InputError, match=r"stopped .*data .*array/train"):
        train(SHORT, tmp_path / "stopped", progress=False, source=open_source(255 - images))
    again = weights(train(SHORT, tmp_path / "stopped", progress=False, source=source))
    assert all(torch.equal(tensor, again[name]) for name, tensor in weights(whole).items())


@pytest.mark.parametrize("loss", ["info_nce", "sup_con"])
def test_with_very_many_classes_there_is_no_probe_and_a_message_says_so(loss, tmp_path, capsys):
    images = np.random.default_rng(0).integers(0, 256, (300, 8, 8), dtype=np.uint8)
    source = open_source(images)
    labels = np.where(np.arange(300) % 2 == 0, 3, 2_000_000_000)
    source = dataclasses.replace(source, labels=labels.astype(np.int64), label_names=("a", "b"))
    config = dataclasses.replace(SHORT, epochs=1, loss=loss)
    log = read_log(train(config, tmp_path / "b", source=source))
    assert "probe" not in log[0] and "class_consistency" not in log[0]
    assert "2,000,000,000; with more than 10,000 classes" in capsys.readouterr().err


def test_broken_images_are_left_out_only_on_request_and_then_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("NONNEG_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    folder.mkdir()
    for i, image in enumerate(open_source("digits").samples[:300]):
        Image.fromarray(image[..., 0]).save(folder / f"{i:03d}.png")
    (folder / "bad.png").write_text("this is not an image")
    config = dataclasses.replace(SHORT, data=str(folder), epochs=1)
    with pytest.raises(InputError, match=r"bad\.png"):
        train(config, tmp_path / "b", progress=False)
    assert not (tmp_path / "b").exists()
    run = train(config.replace(skip_broken=True), tmp_path / "b", progress=False)
    assert json.loads((run / "broken.json").read_text()) == ["bad.png"]


def test_an_existing_run_is_kept_without_overwrite(run):
    before = weights(run)
    with pytest.raises(InputError, match="--overwrite"):
        train(SHORT, run, progress=False)
    assert torch.equal(weights(run)["projector.0.weight"], before["projector.0.weight"])


def test_a_folder_of_other_files_is_never_cleared(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        train(SHORT, tmp_path, overwrite=True, progress=False)
    assert (tmp_path / "thesis.tex").exists()


def test_a_diverging_run_stops_with_an_error(tmp_path):
    config = dataclasses.replace(SHORT, loss="spectral", rectify="none", lr=1e6, warmup_epochs=0)
    with pytest.raises(UntrainableError, match=r"loss became (nan|inf|-inf) in epoch \d.*lr 1e.06"):
        train(config, tmp_path / "b", progress=False)
    assert load_recipe(str(tmp_path / "b" / "config.toml")) == config


@pytest.mark.parametrize("checkpoint_steps", [1, 1000])
def test_a_last_update_that_diverges_is_not_saved(checkpoint_steps, tmp_path):
    settings = {"epochs": 1, "batch_size": 1400, "warmup_epochs": 0, "checkpoint_steps": checkpoint_steps}
    config = dataclasses.replace(SHORT, optimiser="sgd", lr=1e38, weight_decay=1e3, **settings)
    with pytest.raises(UntrainableError, match=r"weight became (nan|inf) in epoch 1.*lr 1e"):
        train(config, tmp_path / "b", progress=False)
    assert not (tmp_path / "b" / "model").exists()
    assert not (tmp_path / "b" / "checkpoints").exists()


def test_a_batch_larger_than_the_data_is_an_error_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match=r"batch_size is 2000.*1400 samples"):
        train(dataclasses.replace(SHORT, batch_size=2000), tmp_path / "b", progress=False)
    assert not (tmp_path / "b").exists()


def test_every_epoch_visits_every_sample_in_its_own_order():
    first, second = epoch_order(50, seed=0, epoch=0), epoch_order(50, seed=0, epoch=1)
    assert sorted(first.tolist()) == list(range(50))
    assert first.tolist() != second.tolist()
    assert first.tolist() == epoch_order(50, seed=0, epoch=0).tolist()


def test_images_larger_than_the_views_are_embedded_whole(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (64, 16, 16, 1), dtype=np.uint8)
    images[:, 4:12, 4:12] = 0  # all content is outside the central 8 x 8 pixels
    views = dataclasses.replace(SHORT.modality.views, size=8)
    run = train(SHORT.replace(batch_size=32, views=views), tmp_path / "run", source=images, progress=False)
    model = nonneg.load(run)
    inputs = model.modality.inputs(torch.from_numpy(images))
    assert inputs.shape == (64, 1, 8, 8) and inputs.std() > 0.1


def test_a_share_keeps_every_feature_alive_and_is_in_use_in_evaluation(tmp_path):
    config = load_recipe("digits").replace(
        epochs=12, warmup_epochs=2, standardise=True, share=0.1, dense_weight=0.5, temperature=0.1, features=64
    )
    last = read_log(train(config, tmp_path / "run", progress=False))[-1]
    assert last["live"] == 64 and last["sparsity"] == pytest.approx(0.9, abs=0.01)
    features = nonneg.load(tmp_path / "run").embed(open_source("digits", "test"), media=False)
    shares = np.asarray(features.active) / len(features)
    assert np.all((shares > 0.02) & (shares < 0.3))


@pytest.mark.parametrize("settings", [{}, {"projector_batch_norm": True}, {"projector_depth": 1}])
def test_after_the_shortest_training_features_are_active_on_their_share_of_the_samples(settings, tmp_path):
    """Statistics of batches of random views, gathered over few steps, would leave many features dead."""
    config = SHORT.replace(epochs=1, warmup_epochs=0, standardise=True, share=0.1, features=64, **settings)
    features = nonneg.load(train(config, tmp_path / "run", progress=False)).embed("digits", media=False)
    np.testing.assert_allclose(np.asarray(features.active) / len(features), 0.1, atol=0.002)


def test_a_share_falls_from_the_first_one_over_most_of_training(tmp_path):
    config = load_recipe("digits").replace(
        epochs=20, warmup_epochs=2, batch_size=64, standardise=True, first_share=0.5, share=0.05, features=64
    )
    source = open_source("digits").take(np.arange(512))
    active = [1 - line["sparsity"] for line in read_log(train(config, tmp_path / "run", source=source))]
    assert 0.3 < active[1] < 0.5 and active[-1] == pytest.approx(0.05, abs=0.01)
    assert all(after < before + 0.01 for before, after in itertools.pairwise(active[1:]))
    assert active[7] == pytest.approx(0.5 * 0.1 ** (7.5 / 16), abs=0.05)  # the same factor each step


def test_the_loss_before_the_rectifier_has_its_weight(tmp_path):
    """With one epoch of one step at lr 0, the logged loss is the weighted mean of the losses on both sides.

    Each side has its own temperature.
    """
    base = (
        load_recipe("digits")
        .replace(epochs=1, warmup_epochs=0, batch_size=64, lr=1e-12, standardise=True, features=32, precision="64-true")
        .replace(temperature=0.3, dense_temperature=0.15)
    )
    source = open_source("digits").take(np.arange(64))

    def loss(config, name):
        return read_log(train(config, tmp_path / name, source=source, progress=False))[0]["loss"]

    losses = {weight: loss(base.replace(dense_weight=weight), str(weight)) for weight in (0.0, 0.25, 0.75)}
    plain = loss(base.replace(rectify="none", temperature=0.15), "none")
    for weight in (0.25, 0.75):
        assert losses[weight] == pytest.approx((1 - weight) * losses[0.0] + weight * plain, rel=1e-5)


def test_the_loss_before_the_rectifier_fades(tmp_path):
    """At lr 0 every epoch has the same losses on both sides; only the weight changes, from 0.5 to 0 in four of five."""
    base = load_recipe("digits").replace(
        epochs=5, warmup_epochs=0, batch_size=64, lr=1e-12, standardise=True, features=32, precision="64-true"
    )
    source = open_source("digits").take(np.arange(64))

    def losses(config, name):
        return np.array([line["loss"] for line in read_log(train(config, tmp_path / name, source=source))])

    after, before = losses(base, "after"), losses(base.without_rectifier().replace(temperature=0.1), "before")
    weight = np.array([0.5, 0.375, 0.25, 0.125, 0.0])
    faded = losses(base.replace(first_dense_weight=0.5), "faded")
    assert faded == pytest.approx((1 - weight) * after + weight * before, rel=1e-5)


def test_caching_gradients_of_the_whole_batch_changes_nothing_not_even_statistics(tmp_path):
    config = dataclasses.replace(SHORT, epochs=1, warmup_epochs=0, batch_size=64, precision="64-true")
    images = open_source("digits").take(range(128))
    ends = [
        weights(train(config.replace(encode_rows=rows), tmp_path / str(rows), source=images, progress=False))
        for rows in (0, 64)
    ]
    for name, tensor in ends[0].items():
        torch.testing.assert_close(ends[1][name], tensor, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "word"),
    [({"encode_rows": 1}, "encode_rows"), ({"encode_rows": 63, "batch_size": 64}, "encode_rows")],
)
def test_parts_of_one_sample_are_an_error(change, word, tmp_path):
    with pytest.raises(InputError, match=word):
        train(SHORT.replace(**change), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_nothing_to_train_is_an_error(tmp_path):
    config = SHORT.replace(encoder="own", projector_depth=0, features=64)
    with pytest.raises(InputError, match="nothing can be trained"):
        train(config, tmp_path / "run", encoder=torch.nn.Flatten(), progress=False)
    assert not (tmp_path / "run").exists()


def test_a_process_with_torchs_newer_precision_settings_can_train(tmp_path):
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    try:
        train(SHORT.replace(epochs=1, warmup_epochs=0), tmp_path / "run", progress=False)
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def test_training_neither_imports_torchmetrics_nor_hides_it_from_fabric():
    program = """
import sys, tempfile
import numpy as np
import nonneg
from nonneg.training import TrainConfig, train

images = np.random.default_rng(0).integers(0, 256, (16, 8, 8), dtype=np.uint8)
train(TrainConfig(epochs=1, warmup_epochs=0, batch_size=16), tempfile.mkdtemp(), source=images, progress=False)
assert "torchmetrics" not in sys.modules
from lightning_fabric.utilities.spike import SpikeDetection
SpikeDetection()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
