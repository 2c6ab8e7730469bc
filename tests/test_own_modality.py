"""The example of a modality of one's own runs, within its promised length, and gives what the other rooms need."""

import importlib.util
import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

import nonneg
from nonneg.features import Features
from nonneg.modalities import Source, register

PATH = Path(__file__).parents[1] / "examples" / "own_modality.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("own_modality", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_fits_in_120_lines():
    assert len(PATH.read_text().splitlines()) <= 120


def test_it_trains_embeds_measures_searches_and_explores(example, tmp_path, capsys):
    example.main(tmp_path)
    printed = capsys.readouterr().out
    assert "linear probe" in printed and "Most like sine-0 are sine-" in printed and "Exploring at http" in printed
    features = Features.load(tmp_path / "waves.features")
    assert features.kind == "images" and features.pixels.shape == (512, 48, 48, 1)
    assert features.codes.min() >= 0
    page = nonneg.explore(tmp_path / "waves.features", block=False, browser=False, announce=lambda line: None)
    try:
        with urllib.request.urlopen(f"{page.url}api/overview", timeout=30) as answer:
            assert json.load(answer)
    finally:
        page.close()


def test_views_depend_only_on_seed_epoch_sample_and_view(example):
    series = torch.from_numpy(example.waves(8, seed=0).samples)
    modality, rows = example.Series(), torch.arange(8)
    whole = modality.draw_views(series, rows, 0, 3, 2, torch.float32)
    part = modality.draw_views(series[5:], rows[5:], 0, 3, 2, torch.float32)
    torch.testing.assert_close(whole.view(2, 8, 1, 128)[:, 5:], part.view(2, 3, 1, 128))
    assert not np.allclose(whole, modality.draw_views(series, rows, 0, 4, 2, torch.float32))


def test_nonneg_search_takes_a_new_sample_of_a_registered_modality(example, tmp_path, command):
    @register
    @dataclass(frozen=True)
    class Recordings(example.Series):
        name: ClassVar[str] = "recordings"

        def read(self, sample):
            return Source("recording", np.load(sample)[None])

    data = example.waves(64, seed=0)
    config = nonneg.TrainConfig(
        modality=Recordings(), encoder="convnet", epochs=1, warmup_epochs=0, batch_size=32, features=16
    )
    run = nonneg.train(config, tmp_path / "run", source=data, progress=False)
    nonneg.load(run).embed(data).save(tmp_path / "run.features")
    np.save(tmp_path / "one.npy", data.samples[5])
    asked = ("search", str(tmp_path / "run.features"), "--run", str(run), "--json")
    code, found, sentence = command(*asked, "--sample", str(tmp_path / "one.npy"))
    assert code == 0, sentence
    assert json.loads(found)[0]["id"] == data.ids[5]
    code, _, sentence = command(*asked, "--image", "one.png")
    assert code == 2 and "image" in sentence and "recording" in sentence
