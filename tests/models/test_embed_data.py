"""`nonneg embed`: a data set to features on disk, in one process or several."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from nonneg.errors import InputError
from nonneg.features import Features, verify
from nonneg.modalities.images import open_source
from nonneg.models import Model, ModelConfig, embed_data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("runs") / "small"
    Model(ModelConfig("convnet_8", channels=1, features=24, projector_width=32)).save(folder / "model")
    return str(folder)


def test_the_features_are_those_of_the_model(run, tmp_path):
    from nonneg import load

    (folder,) = embed_data(run, "digits", tmp_path / "a.features", split="test", progress=False)
    saved, source = verify(folder), open_source("digits", "test")
    direct = load(run).embed(source)
    assert not saved.is_sparse
    np.testing.assert_array_equal(saved.codes, direct.codes)
    assert [saved.id(i) for i in (0, 396)] == [source.ids[0], source.ids[396]]
    assert saved.media(3) == direct.media(3)
    assert saved.provenance == {**direct.provenance, "run": "small"}


def test_both_layers_come_in_a_folder_each(run, tmp_path):
    folders = embed_data(run, "digits", tmp_path / "a.features", split="test", layer="both", progress=False)
    assert [folder.name for folder in folders] == ["a-encoder.features", "a-projector.features"]
    assert [Features.load(folder).shape for folder in folders] == [(397, 512), (397, 24)]


def test_images_can_be_left_out(run, tmp_path):
    (folder,) = embed_data(run, "digits", tmp_path / "a.features", media=False, progress=False)
    assert Features.load(folder).media(0) is None


def test_what_exists_is_kept_unless_it_is_features_and_told_otherwise(run, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="thesis exists already"):
            embed_data(run, "digits", tmp_path / "thesis", overwrite=overwrite, progress=False)
    embed_data(run, "digits", tmp_path / "a.features", split="test", progress=False)
    with pytest.raises(InputError, match=r"a\.features exists already; choose another --out, or --overwrite"):
        embed_data(run, "digits", tmp_path / "a.features", progress=False)
    embed_data(run, "digits", tmp_path / "a.features", overwrite=True, progress=False)
    assert len(Features.load(tmp_path / "a.features")) == 1400


def test_the_folder_is_beside_the_run_unless_it_is_given(run, tmp_path):
    for given in (run, f"{run}/model"):
        (folder,) = embed_data(given, "digits", split="test", media=False, overwrite=True, progress=False)
        assert folder.resolve() == (Path(run).parent / "small-digits-test.features").resolve()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0, expected a whole number, at least 1"),
        ({"layer": "middle"}, "layer is 'middle', expected encoder or projector"),
        ({"run": "nowhere"}, "nowhere holds no trained model"),
        ({"data": "shapes"}, "shapes/train has images of 3 channels, the model expects 1"),
        ({"out": "file/x.features"}, "x.features cannot be written: "),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(change, message, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("a file")
    arguments = {"run": run, "data": "digits", "out": "a.features", **change}
    arguments["out"] = Path(arguments["out"])
    with pytest.raises(InputError, match=message):
        embed_data(**arguments, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_of_grey_images_are_grey_for_a_model_of_one_channel(run, tmp_path, monkeypatch):
    monkeypatch.setenv("NONNEG_CACHE", str(tmp_path / "cache"))
    images = open_source("digits").images[:20]
    for kind in ("grey", "colour"):
        (tmp_path / kind).mkdir()
        for i, image in enumerate(images):
            pixels = image[..., 0] if kind == "grey" else np.concatenate([image, image, image // 2], axis=2)
            Image.fromarray(pixels).save(tmp_path / kind / f"{i:02d}.png")
    np.save(tmp_path / "arrays.npy", images)
    codes = []
    for name, size in (("grey", {}), ("arrays.npy", {}), ("grey", {"image_size": 0})):
        embed_data(run, str(tmp_path / name), tmp_path / "a.features", **size, overwrite=True, progress=False)
        codes.append(Features.load(tmp_path / "a.features").codes)
    np.testing.assert_array_equal(codes[1], codes[0])
    np.testing.assert_array_equal(codes[2], codes[0])
    with pytest.raises(InputError, match="has images of 3 channels, the model expects 1"):
        embed_data(run, str(tmp_path / "colour"), tmp_path / "b.features", progress=False)


def test_images_are_cut_as_for_training(tmp_path, monkeypatch):
    monkeypatch.setenv("NONNEG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    for i, image in enumerate(open_source("digits").images[:20]):
        Image.fromarray(image[..., 0]).resize((16, 20)).save(tmp_path / "data" / f"{i:02d}.png")
    torch.manual_seed(0)
    model = Model(ModelConfig("convnet_8", channels=3, features=24, projector_width=32, image_size=6, resize=8))
    model.save(tmp_path / "sized" / "model")
    (folder,) = embed_data(str(tmp_path / "sized"), str(tmp_path / "data"), media=False, progress=False)
    images = open_source(tmp_path / "data", image_size=8).images[:, 1:7, 1:7]
    expected = model.eval()(model.normalised(torch.from_numpy(images.copy()))).detach().numpy()
    saved = Features.load(folder)
    codes = saved.codes.toarray() if saved.is_sparse else saved.codes
    np.testing.assert_allclose(codes, expected, rtol=1e-5, atol=1e-6)
    assert saved.provenance["image_size"] == [6, 6]


def test_images_of_another_size_than_trained_on_are_refused_unless_told_otherwise(tmp_path):
    config = ModelConfig("convnet_8", channels=1, features=24, projector_width=32, image_size=6)
    Model(config).save(tmp_path / "sized" / "model")
    run = str(tmp_path / "sized")
    with pytest.raises(
        InputError,
        match=r"images of 8 x 8 pixels, the model was trained on 6 x 6; nonneg embed takes them with --image-size 6",
    ):
        embed_data(run, "digits", tmp_path / "a.features", progress=False)
    embed_data(run, "digits", tmp_path / "a.features", image_size=0, progress=False)
    assert len(Features.load(tmp_path / "a.features")) == 1400


def test_two_processes_write_what_one_writes(run, tmp_path):
    arguments = ["-m", "nonneg", "embed", run, "digits", "--layer", "both", "--batch-size", "100"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    for name, start in (("one", [sys.executable]), ("two", torchrun)):
        command = [*start, *arguments, "--out", str(tmp_path / f"{name}.features")]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Embedded:") == 1
    for layer in ("encoder", "projector"):
        one, two = (verify(tmp_path / f"{name}-{layer}.features") for name in ("one", "two"))
        # Payload files are named by their content.
        files = [sorted(p.name for p in (tmp_path / f"{n}-{layer}.features").glob("*.npy")) for n in ("one", "two")]
        assert files[0] == files[1]
        assert one.samples.equals(two.samples)
        assert one.label_names == two.label_names
    assert not list(tmp_path.glob(".*part*"))


def test_what_a_killed_run_left_behind_is_not_mixed_in(run, tmp_path):
    for rank in (0, 1, 2):
        stale = Features(np.ones((3, 24), np.float32), ids=[f"{rank}-{i}" for i in range(3)])
        stale.save(tmp_path / f".a.features.part-{rank}")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "nonneg"]
    # One batch holds everything: the second process has nothing to write.
    command += ["embed", run, "digits", "--split", "test", "--out", str(tmp_path / "a.features")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert verify(tmp_path / "a.features").shape == (397, 24)
    assert [path.name for path in tmp_path.iterdir()] == ["a.features"]
