"""Words find pictures in a real browser."""

import shutil

import numpy as np
import pytest

import nonneg
from nonneg.modalities import Source
from nonneg.modalities.images import Images
from nonneg.modalities.pairs import Pairs, pair_source
from nonneg.modalities.texts import TextRows, Texts
from nonneg.training import TrainConfig, train
from tests.explorer.conftest import settled

COLOURS = {"red": (220, 30, 30), "green": (30, 180, 40), "blue": (40, 60, 220)}


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """Pictures of three colours, embedded beside their run."""
    pytest.importorskip("tokenizers")
    rng = np.random.default_rng(0)
    names = [name for name in COLOURS for _ in range(16)]
    pixels = np.array([np.full((8, 8, 3), COLOURS[name]) + rng.integers(-20, 20, (8, 8, 3)) for name in names])
    images = Source("pictures", pixels.clip(0, 255).astype(np.uint8))
    texts = Source("texts", TextRows([f"{name} thing {row}" for row, name in enumerate(names)]))
    pairs = pair_source(
        images, texts, groups=[list(COLOURS).index(name) * 100 + row // 2 for row, name in enumerate(names)]
    )
    modality = Pairs(first=Images(), second=Texts(length=8, vocabulary=300, width=16, depth=0, heads=2), width=16)
    sizes = {"batch_size": 16, "epochs": 20, "warmup_epochs": 0, "features": 12, "projector_depth": 1}
    config = TrainConfig(modality=modality, encoder="convnet_8+transformer", accelerator="cpu", **sizes)
    run = train(config, tmp_path_factory.mktemp("words") / "run", source=pairs, progress=False)
    made = nonneg.load(run).embed(pairs, side="image").with_provenance({"run": "run", "side": "image"})
    made.save(run.parent / "run.features")
    return run.parent / "run.features"


def test_examples_of_words_differ_in_every_word(tmp_path, features, serve, visit):
    copy = shutil.copytree(features.parent, tmp_path / "copy") / features.name
    named = nonneg.Features.load(copy)
    names = dict(zip(named.ranked(), ["red thing", "red, dot", "green dot", "blue"], strict=False))
    named.with_names(names).save(copy, overwrite=True)
    page = visit(serve(copy))
    settled(page)
    offered = page.locator("p", has_text="For example").get_by_role("button").all_inner_texts()
    words = [word for text in offered for word in text.split()]
    assert {"red", "blue"} <= set(words) and len(words) == len(set(words))


def test_words_typed_on_the_overview_find_pictures_and_are_part_of_the_address(features, serve, visit):
    page = visit(serve(features))
    settled(page)
    page.get_by_role("searchbox", name="Words").fill("green")
    page.get_by_role("button", name="Find pictures").click()
    page.get_by_role("heading", name="Found").wait_for()
    assert page.url.endswith("/try?words=green")
    assert page.get_by_role("searchbox", name="Words").input_value() == "green"
    page.locator(".tiles.found img").first.wait_for()
    page.get_by_role("searchbox", name="Words").fill("blue")
    page.get_by_role("searchbox", name="Words").press("Enter")
    page.wait_for_url("**/try?words=blue")
    page.go_back()
    page.wait_for_url("**/try?words=green")
