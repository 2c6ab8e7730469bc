"""Embedding a data set into features on disk, in one process or several."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from nonneg.codes import dense
from nonneg.errors import InputError
from nonneg.features import Features, verify
from nonneg.modalities.images import Images, open_source
from nonneg.models import EmbedOptions, Model, ModelConfig, embed_data, load, weights_digest


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("runs") / "small"
    Model(ModelConfig("convnet_8", Images(channels=1), features=24, projector_width=32)).save(folder / "model")
    return str(folder)


def test_saved_features_are_those_of_model_embed(run, tmp_path):
    (folder,) = embed_data(run, "digits", tmp_path / "a.features", EmbedOptions("test"), progress=False)
    saved, source = verify(folder), open_source("digits", "test")
    direct = load(run).embed(source)
    assert not saved.is_sparse
    np.testing.assert_array_equal(saved.codes, direct.codes)
    assert [saved.id(i) for i in (0, 396)] == [source.ids[0], source.ids[396]]
    assert saved.media(3) == direct.media(3)
    assert saved.provenance == {**direct.provenance, "run": "small", "weights": weights_digest(run)}


def test_both_layers_are_saved_in_separate_folders(run, tmp_path):
    folders = embed_data(run, "digits", tmp_path / "a.features", EmbedOptions("test", "both"), progress=False)
    assert [folder.name for folder in folders] == ["a-encoder.features", "a-projector.features"]
    assert [Features.load(folder).shape for folder in folders] == [(397, 512), (397, 24)]


def test_previews_can_be_left_out(run, tmp_path):
    (folder,) = embed_data(run, "digits", tmp_path / "a.features", EmbedOptions(media=False), progress=False)
    assert Features.load(folder).media(0) is None


def test_only_features_are_overwritten_and_only_on_request(run, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="/thesis does not hold features"):
            embed_data(run, "digits", tmp_path / "thesis", EmbedOptions(overwrite=overwrite), progress=False)
    embed_data(run, "digits", tmp_path / "a.features", EmbedOptions("test"), progress=False)
    with pytest.raises(InputError, match=r"a\.features .*--overwrite"):
        embed_data(run, "digits", tmp_path / "a.features", progress=False)
    embed_data(run, "digits", tmp_path / "a.features", EmbedOptions(overwrite=True), progress=False)
    assert len(Features.load(tmp_path / "a.features")) == 1400


def test_the_default_folder_is_beside_the_run(run, tmp_path):
    for given in (run, f"{run}/model"):
        (folder,) = embed_data(given, "digits", None, EmbedOptions("test", media=False, overwrite=True), progress=False)
        assert folder.resolve() == (Path(run).parent / "small-digits-test.features").resolve()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": EmbedOptions(batch_size=0)}, "batch_size is 0"),
        ({"options": EmbedOptions(layer="middle")}, "layer is 'middle'"),
        ({"run": "nowhere"}, "nowhere "),
        ({"data": "nothing"}, "data is 'nothing'"),
        ({"out": "file/x.features"}, r"x\.features cannot be written"),
        ({"out": ".", "options": EmbedOptions(layer="both")}, r"out is \., expected the name of a folder"),
        ({"out": "..", "options": EmbedOptions(layer="both")}, r"out is \.\."),
    ],
)
def test_errors_name_the_argument_before_anything_is_written(change, message, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("a file")
    arguments = {"run": run, "data": "digits", "out": "a.features", **change}
    arguments["out"] = Path(arguments["out"])
    with pytest.raises(InputError, match=message):
        embed_data(**arguments, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """20 image files of coloured digits, 16 x 20 pixels."""
    monkeypatch.setenv("NONNEG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    for i, image in enumerate(open_source("digits").samples[:20]):
        pixels = np.concatenate([image, image, image // 2], axis=2)
        Image.fromarray(pixels).resize((16, 20)).save(tmp_path / "data" / f"{i:02d}.png")
    return tmp_path / "data"


@pytest.mark.parametrize(
    "images",
    [
        Images(channels=3, image_size=8, height=6, width=6, centre=0.75),
        Images(channels=3, height=20, width=16),
        Images(channels=3, height=8, width=8),
        Images(channels=1, image_size=12, height=12, width=12, mean=(0.3,), std=(0.2,)),
    ],
    ids=["resized and cropped", "oblong", "resized on the device", "grey"],
)
def test_an_image_has_the_same_code_from_a_data_set_and_as_a_single_file(images, pictures, tmp_path):
    torch.manual_seed(0)
    Model(ModelConfig("convnet_8", images, features=24, projector_width=32)).save(tmp_path / "sized" / "model")
    (folder,) = embed_data(str(tmp_path / "sized"), str(pictures), options=EmbedOptions("train", "encoder"))
    codes = dense(Features.load(folder).codes)
    model = load(tmp_path / "sized")
    for row, path in enumerate(sorted(pictures.iterdir())[:5]):
        alone = dense(model.embed(model.modality.read(path.read_bytes()), "encoder").codes)
        np.testing.assert_allclose(alone[0], codes[row], rtol=1e-4, atol=1e-5)
    opened = dense(model.embed(open_source(pictures), "encoder").codes)  # at their own size, resized by the model
    assert np.abs(opened - codes).max() < 0.1 * np.abs(codes).max()


def test_larger_images_are_resized_not_cropped():
    large = np.zeros((1, 16, 16, 1), np.uint8)
    large[:, :4] = 200  # only at the top, outside the central 8 x 8 pixels
    inputs = Images(channels=1, height=8, width=8).inputs(torch.from_numpy(large))
    assert inputs.shape == (1, 1, 8, 8)
    torch.testing.assert_close(inputs[0, 0, 0], torch.full((8,), 200 / 255), atol=0.05, rtol=0)
    assert inputs[0, 0, 4:].max() < 0.05


def test_grey_images_fit_a_colour_model_and_colour_images_a_grey_one():
    grey = torch.arange(64, dtype=torch.uint8).view(1, 8, 8, 1)
    colour = Images(channels=3).inputs(grey)
    assert colour.shape == (1, 3, 8, 8) and torch.equal(colour[:, 0], colour[:, 2])
    again = Images(channels=1).inputs(grey.expand(1, 8, 8, 3))
    assert torch.equal(again, colour[:, :1])


def test_files_of_different_sizes_are_embedded_by_a_model_of_one_size(pictures, tmp_path):
    Image.new("RGB", (40, 30), "red").save(pictures / "larger.png")
    torch.manual_seed(0)
    config = ModelConfig("convnet_8", Images(channels=3, height=12, width=12), features=24, projector_width=32)
    Model(config).save(tmp_path / "sized" / "model")
    (folder,) = embed_data(str(tmp_path / "sized"), str(pictures))
    features, model = Features.load(folder), load(tmp_path / "sized")
    assert len(features) == 21
    alone = model.embed(model.modality.read(pictures / "larger.png"))
    codes = [dense(f.codes) for f in (features, alone)]
    np.testing.assert_allclose(codes[1][0], codes[0][-1], atol=0.02 * np.abs(codes[0]).max())


def test_two_processes_write_the_same_features_as_one(run, tmp_path, torchrun):
    arguments = ("-m", "nonneg", "embed", run, "digits", "--layer", "both", "--batch-size", 100, "--out")
    for processes, name in ((1, "one.features"), (2, "two.features")):
        done = torchrun(*arguments, tmp_path / name, processes=processes)
        assert done.stdout.count("Embedded:") == 1
    for layer in ("encoder", "projector"):
        one, two = (verify(tmp_path / f"{name}-{layer}.features") for name in ("one", "two"))
        # Payload files are named by their content.
        files = [sorted(p.name for p in (tmp_path / f"{n}-{layer}.features").glob("*.npy")) for n in ("one", "two")]
        assert files[0] == files[1]
        assert one.samples.equals(two.samples)
        assert one.label_names == two.label_names
    assert not list(tmp_path.glob(".*part*"))


@pytest.mark.parametrize("failing", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_all_processes_end_with_the_error_of_the_one_that_failed(failing, run, tmp_path):
    """Each process by itself, as srun starts them: torchrun would end the others."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    started = []
    for rank in (0, 1):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
        place |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
        data = "missing" if rank == failing else "digits"
        command = [sys.executable, "-m", "nonneg", "embed", run, data, "--out", str(tmp_path / "a.features")]
        environment = {**os.environ, **{name: str(value) for name, value in place.items()}}
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment))
    for process in started:
        printed = process.communicate(timeout=60)[1]
        assert process.returncode == 2, printed
        assert "data is 'missing'" in printed and "Traceback" not in printed
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_leftovers_of_an_interrupted_run_are_removed(run, tmp_path, torchrun):
    for rank in (0, 1, 2):
        stale = Features(np.ones((3, 24), np.float32), ids=[f"{rank}-{i}" for i in range(3)])
        stale.save(tmp_path / f".[a].features.part-{rank}")
    # One batch holds all samples: the second process has nothing to write.
    torchrun("-m", "nonneg", "embed", run, "digits", "--split", "test", "--out", tmp_path / "[a].features")
    assert verify(tmp_path / "[a].features").shape == (397, 24)
    assert [path.name for path in tmp_path.iterdir()] == ["[a].features"]
