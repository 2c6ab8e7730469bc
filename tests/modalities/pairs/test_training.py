"""Pairs from training to search: the same guarantees as for one modality."""

import csv
import importlib.util
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch.optim.optimizer import register_optimizer_step_post_hook

import nonneg
from nonneg.cli import main
from nonneg.codes import dense
from nonneg.errors import InputError, StoppedError
from nonneg.modalities import Source
from nonneg.modalities.images import Images
from nonneg.modalities.pairs import Pairs, pair_source
from nonneg.modalities.texts import TextRows, Texts
from nonneg.models import EmbedOptions, embed_data
from nonneg.search import Query, find
from nonneg.training import TrainConfig, read_log, train

pytest.importorskip("tokenizers")
SCRIPT = Path(__file__).parent / "two_processes.py"
spec = importlib.util.spec_from_file_location("two_processes_pairs", SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
COLOURS = {"red": (200, 30, 30), "green": (30, 160, 40), "blue": (40, 60, 210), "grey": (128, 128, 128)}
SIDES = ("left", "right")
MODALITY = Pairs(
    first=Images(views=replace(Images().views, noise=0.02)),
    second=Texts(length=8, vocabulary=300, width=16, depth=1, heads=2, dropout=0.1),
    width=32,
    labels="colour",
)
CONFIG = TrainConfig(
    modality=MODALITY,
    encoder="convnet_8+transformer",
    epochs=12,
    warmup_epochs=1,
    batch_size=16,
    lr=0.003,
    features=24,
    projector_depth=1,
    standardise=True,
    share=0.15,
    dense_weight=0.5,
    accelerator="cpu",
    data="table.csv",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pictures half of which are coloured, with two texts each."""
    place = tmp_path_factory.mktemp("pairs")
    rng = np.random.default_rng(0)
    rows = []
    for number in range(32):
        colour, side = list(COLOURS)[number % 4], SIDES[number // 4 % 2]
        pixels = np.full((8, 8, 3), 255, np.uint8)
        pixels[:, :4] = COLOURS[colour] if side == "left" else pixels[:, :4]
        pixels[:, 4:] = COLOURS[colour] if side == "right" else pixels[:, 4:]
        noisy = (pixels + rng.normal(0, 8, pixels.shape)).clip(0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(place / f"{number}.png")
        rows += [(f"{number}.png", f"{colour} {side} {number}", colour), (f"{number}.png", f"{side}, {colour}", colour)]
    with (place / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "text", "colour"), *rows])
    return place


@pytest.fixture(scope="module")
def run(folder):
    return train(CONFIG.replace(data=str(folder / "table.csv")), folder / "run", progress=False)


def test_words_find_pictures_and_pictures_find_words(run, folder):
    model = nonneg.load(run)
    pictures, texts = (model.embed(str(folder / "table.csv"), side=side) for side in ("image", "text"))
    assert len(pictures) == 32 and pictures.shape[1] == texts.shape[1] == 24
    assert dense(pictures.codes).min() >= 0
    hits = find(pictures, Query(text="red left", k=4), run=run)
    assert sum("red" in hit.text for hit in hits) >= 3 and hits[0].contributions
    hits = find(texts, Query(image=str(folder / "2.png"), k=4), run=run)
    assert sum("blue" in hit.text for hit in hits) >= 3


def test_both_sides_can_be_read_at_another_share(run, folder):
    data = str(folder / "table.csv")
    model = nonneg.load(run).at_share(0.4, data)
    codes = [model.embed(data, side=side, media=False).codes for side in ("image", "text")]
    active = [dense(each) > 0 for each in codes]
    # Texts and images count alike, and there are twice as many texts.
    assert np.concatenate([active[0], active[0], active[1]]).mean() == pytest.approx(0.4, abs=0.05)
    again = nonneg.load(run).at_share(0.15, data)
    for side in ("image", "text"):
        before, after = (each.embed(data, side=side, media=False).codes for each in (nonneg.load(run), again))
        assert abs(before - after).max() < 1e-3


def test_a_run_is_resumed_exactly(folder, tmp_path):
    config = CONFIG.replace(data=str(folder / "table.csv"), epochs=3, learn_temperature=True, within_weight=0.2)
    whole = train(config, tmp_path / "whole", progress=False)
    done = 0

    def stop(*_):
        nonlocal done
        done += 1
        if done == 3:
            signal.raise_signal(signal.SIGTERM)

    hook = register_optimizer_step_post_hook(stop)
    try:
        with pytest.raises(StoppedError):
            train(config, tmp_path / "stopped", progress=False)
    finally:
        hook.remove()
    resumed = train(config, tmp_path / "stopped", progress=False)
    first, second = (load_file(each / "model" / "model.safetensors") for each in (whole, resumed))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    for name in ("loss", "temperature", "dense_temperature"):
        assert [line[name] for line in read_log(whole)] == [line[name] for line in read_log(resumed)]


def test_two_views_of_a_side_attract_each_other(folder, tmp_path):
    """Without random views they are the same, and so nearer than the sides of an untrained network."""
    same = replace(MODALITY, first=Images(), second=replace(MODALITY.second, dropout=0.0))
    config = CONFIG.replace(data=str(folder / "table.csv"), modality=same, epochs=1, warmup_epochs=0, lr=1e-9)
    between, both = (
        read_log(train(config.replace(within_weight=weight), tmp_path / str(weight), progress=False))[0]["loss"]
        for weight in (0.0, 0.5)
    )
    assert both < 0.9 * between


def test_a_text_of_unknown_words_has_as_many_active_features_as_others(run):
    model = nonneg.load(run)
    codes = model.embed(["red left", "qzx vwy", "red left green right blue grey"], side="text").codes
    active = (np.asarray(codes.todense() if hasattr(codes, "todense") else codes) > 0).sum(1)
    assert active.min() >= 1 and active.max() <= 24 / 2


@pytest.mark.parametrize("loss", ["info_nce", "spectral"])
def test_partners_of_a_group_are_not_negatives(loss, folder):
    """With all pairs of a batch in one group there is nothing to push apart."""
    images = Source("images", np.zeros((8, 8, 8, 3), np.uint8))
    texts = Source("texts", TextRows([f"text {row}" for row in range(8)]))
    alone = pair_source(images, texts, groups=[0] * 7 + [1])
    plain = {"rectify": "none", "share": 0.0, "dense_weight": 0.0, "lr": 1e-9}
    config = CONFIG.replace(epochs=1, warmup_epochs=0, batch_size=8, loss=loss, **plain)
    first = read_log(train(config, folder / f"{loss}-grouped", source=alone, progress=False))[0]["loss"]
    second = read_log(train(config, folder / f"{loss}-plain", source=pair_source(images, texts), progress=False))
    assert first < second[0]["loss"]


def test_two_processes_end_with_the_weights_of_one(tmp_path, torchrun):
    script.train_both(tmp_path / "one")
    torchrun(SCRIPT, tmp_path / "two")
    for loss in ("info_nce", "spectral"):
        one, two = (load_file(tmp_path / name / loss / "model" / "model.safetensors") for name in ("one", "two"))
        assert max(float((one[key].double() - two[key].double()).abs().max()) for key in one) < 1e-6, loss


@pytest.mark.slow
def test_two_processes_embed_as_one(run, folder, tmp_path, torchrun):
    arguments = ("-m", "nonneg", "embed", run, folder / "table.csv", "--batch-size", 8, "--out")
    found = []
    for count in (1, 2):
        torchrun(*arguments, tmp_path / str(count), processes=count)
        found.append(nonneg.Features.load(tmp_path / str(count)))
    assert found[0].provenance == found[1].provenance and found[0].agreement is not None
    assert found[0].suggestions == found[1].suggestions


def test_texts_can_be_paired_with_texts(tmp_path):
    (tmp_path / "t.csv").write_text("en,de\n" + "".join(f"house {n},Haus {n}\n" for n in range(20)))
    modality = Pairs(first=MODALITY.second, second=MODALITY.second, first_column="en", second_column="de", width=16)
    config = CONFIG.replace(modality=modality, encoder="transformer+transformer", data=str(tmp_path / "t.csv"))
    made = train(config.replace(epochs=1), tmp_path / "run", progress=False)
    german = nonneg.load(made).embed(str(tmp_path / "t.csv"), side="second")
    assert german.text(3) == "Haus 3\nhouse 3" or german.text(3) == "Haus 3"


def test_a_side_that_is_unknown_is_an_error(run, folder):
    with pytest.raises(InputError, match="side is 'sound'"):
        nonneg.load(run).embed(str(folder / "table.csv"), side="sound")


def test_embed_and_search_commands(run, folder, monkeypatch, capsys):
    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["nonneg", *map(str, arguments)])
        main()
        return capsys.readouterr().out

    monkeypatch.chdir(folder)
    command("embed", run, folder / "table.csv", "--side", "image")
    features = nonneg.Features.load(folder / "run-table-train-image.features")
    assert features.provenance["side"] == "image" and features.text(0).startswith("red")
    assert features.agreement.shape == (24,) and np.nanmedian(features.agreement) > 0.6
    names = {suggestion.name for suggestion in features.suggestions.values()}
    assert any("green" in name for name in names)  # features of pictures name themselves
    found = command("search", "run-table-train-image.features", "--text", "green", "--json")
    assert "green" in json.loads(found)[0]["text"]
    with pytest.raises(SystemExit) as stopped:
        command("search", "run-table-train-image.features", "--text", " ")
    assert stopped.value.code == 2 and "the text is blank" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        command("embed", run, folder / "table.csv", "--side", "sound")
    assert stopped.value.code == 2 and "side is 'sound'" in capsys.readouterr().err


def test_cut_texts_are_reported_and_stored_with_the_features_of_either_side(run, folder, tmp_path, capsys):
    rows = [("image", "text"), ("0.png", "red left " * 9), ("1.png", "green"), ("1.png", "")]
    with (folder / "long.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    for side in ("image", "text"):
        options = EmbedOptions(side=side, skip_broken=True)
        (made,) = embed_data(str(run), str(folder / "long.csv"), tmp_path / side, options)
        note, stored = "1 of 2 texts are longer than 8 tokens and are cut", nonneg.Features.load(made).provenance
        assert note in capsys.readouterr().err and note in stored["notes"]
        assert stored["left_out_names"] == ["row 2 (empty)"]


def test_measure_compares_class_names_and_the_sides(run):
    table = nonneg.measure(str(run), parts=("zero-shot", "agreement", "partners"))
    shown = table.markdown()
    assert "zero-shot" in shown and "AUC" in shown
    agreement = table.columns["run"][0].figures["partner_auc", "projector"]
    assert agreement.interval[0] < agreement.value <= agreement.interval[1] <= 1
