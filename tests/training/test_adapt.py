"""The recipe for one's own images: settings that are chosen by rule, and the estimate of the time."""

import re

import numpy as np
import pytest
import torch
from PIL import Image

import nonneg
from nonneg.errors import InputError
from nonneg.modalities import Source
from nonneg.training import adapted, load_recipe, train

IMAGES = load_recipe("images").replace(accelerator="cpu")


def array(path, count, side):
    np.save(path, np.random.default_rng(0).integers(0, 256, (count, side, side, 3), dtype=np.uint8))
    return str(path)


@pytest.mark.parametrize(
    ("samples", "batch_size", "epochs", "features"),
    [(4, 4, 800, 512), (20, 16, 800, 512), (100, 16, 800, 512), (1000, 64, 400, 512), (6000, 256, 67, 2048)],
)
def test_few_images_get_small_batches_and_many_epochs(samples, batch_size, epochs, features, tmp_path):
    config, sentence = adapted(IMAGES.replace(data=array(tmp_path / "x.npy", samples, 8)))
    assert (config.batch_size, config.epochs, config.features) == (batch_size, epochs, features)
    assert config.warmup_epochs == epochs // 10 and config.lr == pytest.approx(0.4 * batch_size / 256)
    assert config.share * samples >= min(8, samples / 2)
    assert f"{samples:,} images of 8 x 8 on a CPU" in sentence and f"batch_size {batch_size}" in sentence


@pytest.mark.parametrize(("samples", "share"), [(1000, 0.1), (6000, 0.06), (9000, 0.03)])
def test_fewer_features_are_active_on_more_samples_up_to_a_tenth(samples, share, tmp_path):
    config, _ = adapted(IMAGES.replace(data=array(tmp_path / "x.npy", samples, 8)))
    assert config.share == pytest.approx(share)
    as_given, _ = adapted(IMAGES.replace(data=array(tmp_path / "x.npy", samples, 8), features=300), {"features"})
    assert as_given.features == 300 and as_given.share == 0.03


def test_the_learning_rate_of_adamw_follows_the_square_root_of_the_batch(tmp_path):
    config, _ = adapted(IMAGES.replace(data=array(tmp_path / "x.npy", 1000, 8), optimiser="adamw", lr=0.002))
    assert config.batch_size == 64 and config.lr == pytest.approx(0.001)


def test_settings_that_are_given_stay_and_others_follow_them(tmp_path):
    config = IMAGES.replace(data=array(tmp_path / "x.npy", 1000, 8), batch_size=32, epochs=5, share=0.1)
    chosen, sentence = adapted(config, {"batch_size", "epochs", "share"})
    assert (chosen.batch_size, chosen.epochs, chosen.share, chosen.warmup_epochs) == (32, 5, 0.1, 0)
    assert "batch_size" not in sentence and "epochs 5" not in sentence


@pytest.mark.parametrize(
    ("side", "on_gpu", "encoder", "stem", "image_size", "view"),
    [
        (8, False, "convnet_8", "standard", 0, 0),
        (32, False, "convnet_24", "standard", 0, 0),
        (300, False, "convnet_24", "standard", 40, 32),
        (32, True, "resnet18", "small", 0, 0),
        (64, True, "resnet18", "small", 0, 0),
        (300, True, "resnet18", "standard", 160, 128),
    ],
)
def test_size_and_device_decide_the_encoder_and_what_it_sees(side, on_gpu, encoder, stem, image_size, view):
    source = Source("x", np.zeros((4, side, side + 5, 3), np.uint8))
    chosen = IMAGES.modality.adapted(source, on_gpu)
    assert (chosen["encoder"], chosen["stem"], chosen["image_size"]) == (encoder, stem, image_size)
    assert chosen["views"].size == view and chosen["views"].jitter_p == IMAGES.modality.views.jitter_p
    IMAGES.replace(**chosen)  # they fit together


@pytest.mark.parametrize("packed", [False, True])
def test_photographs_of_different_sizes_can_be_trained_on(packed, command, tmp_path, monkeypatch):
    monkeypatch.setenv("NONNEG_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for i in range(40):
        folder = tmp_path / "photos" / ("cats" if i % 2 else "dogs")
        folder.mkdir(parents=True, exist_ok=True)
        height, width = rng.integers(100, 200, 2)
        pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.jpg")
    (tmp_path / "photos" / "dogs" / "notes.txt").write_text("not an image")
    data = "photos"
    if packed:
        import tarfile

        with tarfile.open("photos.tar.gz", "w:gz") as tar:
            tar.add("photos", "photos")
        data = "photos.tar.gz"
    code, out, error = command("train", "images", "--data", data, "--epochs", "4", "--accelerator", "cpu")
    assert code == 0 and "Trained: runs/images" in out
    assert "40 images of 40 x 40 on a CPU: encoder convnet_24" in error and "batch_size 16" in error
    config = load_recipe("runs/images/config.toml")
    assert (config.epochs, config.warmup_epochs, config.modality.image_size) == (4, 0, 40)
    assert nonneg.load("runs/images").embed(data).shape == (40, 512)


def test_two_images_are_an_error(tmp_path):
    with pytest.raises(InputError, match="holds 3 samples, expected at least 4"):
        adapted(IMAGES.replace(data=array(tmp_path / "x.npy", 3, 8)))


def test_without_a_rectifier_its_settings_are_zero(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = array(tmp_path / "x.npy", 32, 8)
    code, _, error = command("train", "images", "--data", data, "--epochs", "1", "--rectify", "none")
    assert code == 0, error
    config = load_recipe("runs/images/config.toml")
    assert (config.rectify, config.share, config.first_share, config.first_dense_weight) == ("none", 0, 0, 0)


def test_the_estimate_of_the_time_does_not_change_the_result(tmp_path, capsys):
    data = array(tmp_path / "x.npy", 128, 8)
    config, _ = adapted(IMAGES.replace(data=data, epochs=20, batch_size=32), {"epochs", "batch_size"})
    torch.manual_seed(5)
    silent = nonneg.load(train(config, tmp_path / "silent", progress=False)).state_dict()
    shown = nonneg.load(train(config, tmp_path / "shown")).state_dict()
    assert re.search(r"Time: about [\d.]+ (second|minute)s?\.", capsys.readouterr().err)
    assert all(torch.equal(value, shown[name]) for name, value in silent.items())


def test_a_batch_of_all_samples_keeps_the_learning_rate():
    config = load_recipe("images").replace(data="digits", accelerator="cpu", batch_size=0)
    chosen, _ = adapted(config, given={"batch_size"}, progress=False)
    assert chosen.batch_size == 0 and chosen.lr == config.lr
