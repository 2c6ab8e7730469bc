"""`nonneg embed`: a data set to features on disk, in one process or several."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from nonneg.data import open_source
from nonneg.errors import InputError
from nonneg.features import Features, verify
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
    assert saved.provenance == direct.provenance


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
