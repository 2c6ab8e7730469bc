"""Words that switch a feature on are marked in a real browser."""

import shutil
import threading

import numpy as np
import pytest

import nonneg
from nonneg import Features
from nonneg.errors import InputError
from nonneg.explorer import Explorer, Page, open_explorer
from nonneg.modalities.texts import Texts, ViewConfig
from nonneg.training import TrainConfig, train
from tests.explorer.conftest import settled

STARTS, MIDDLES = ("lost", "stolen", "new", "old"), ("my", "the", "a", "one")
TEXTS = [f"{start} {middle} 🦊 card" for start in STARTS for middle in MIDDLES]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    pytest.importorskip("tokenizers")
    modality = Texts(width=16, depth=0, heads=2, vocabulary=300, views=ViewConfig(delete=0.3))
    sizes = {"batch_size": 16, "epochs": 30, "warmup_epochs": 0, "features": 12, "projector_width": 16}
    config = TrainConfig(modality=modality, encoder="transformer", accelerator="cpu", **sizes)
    run = train(config, tmp_path_factory.mktemp("marks") / "run", source=TEXTS, progress=False)
    nonneg.load(run).embed(TEXTS).save(run.parent / "run.features")
    return run


def test_words_are_marked_in_a_text_in_a_typed_text_and_in_the_strongest_texts(run, serve, visit):
    address = serve(run)
    page = visit(address + "/sample/3")
    page.locator(".whole mark.word").first.wait_for()
    assert page.locator(".whole .text").inner_text() == TEXTS[3]
    marked = page.locator("mark.word").all_inner_texts()
    assert set(marked) <= set(TEXTS[3].split())
    feature = page.locator(".marking select").input_value()
    page.goto(f"{address}/feature/{feature}")
    page.locator(".tiles mark.word").first.wait_for()
    page.goto(f"{address}/try")
    settled(page)
    page.get_by_label("Your text").fill("stolen <b>card</b>")
    page.get_by_role("button", name="Show its features").click()
    page.locator(".whole .text").wait_for()
    assert page.locator(".whole .text").inner_text() == "stolen <b>card</b>"


def test_a_model_that_cannot_be_loaded_is_an_error_only_where_it_is_needed(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    shutil.copytree(run.parent / "run.features", tmp_path / "run.features")
    explorer = open_explorer([copy])
    (copy / "model" / "model.safetensors").write_bytes(b"damaged")
    explorer.prepare(encodes=True)
    with pytest.raises(InputError, match="model"):
        explorer.encode(0, "lost my card")


@pytest.fixture
def without_texts(run, tmp_path):
    """The features of the run without their texts, beside a copy of it."""
    shutil.copytree(run, tmp_path / "run")
    codes = Features.load(run.parent / "run.features").codes
    return Features(codes, provenance={"run": "run"}).save(tmp_path / "run.features")


def test_no_example_is_offered_where_samples_have_no_text(without_texts, serve, visit):
    page = visit(serve(without_texts) + "/try")
    page.get_by_label("Your text").wait_for()
    assert page.get_by_text("For example").count() == 0


def test_words_are_marked_although_the_strongest_text_is_empty(run, without_texts, serve, visit):
    features = Features.load(run.parent / "run.features")
    feature = features.ranked()[0]
    texts = np.where(np.arange(len(TEXTS)) == features.feature(feature).top[0], " ", TEXTS).tolist()
    Features(features.codes, texts=texts, provenance={"run": "run"}).save(without_texts, overwrite=True)
    page = visit(f"{serve(without_texts)}/feature/{feature}")
    page.locator(".tiles mark.word").first.wait_for()


def test_what_was_tried_stays_when_the_names_are_ready(run, without_texts, visit):
    features = Features.load(run.parent / "run.features")
    Features(features.codes, texts=TEXTS, provenance={"run": "run"}).save(without_texts, overwrite=True)
    ready = threading.Event()

    class Waiting(Explorer):
        def prepare(self, encodes=False):
            ready.wait(60)
            super().prepare(encodes)

    with Page(Waiting(open_explorer([without_texts]).sets), port=0) as served:
        page = visit(served.url + "try")
        page.get_by_label("Your text").fill("stolen card")
        page.get_by_role("button", name="Show its features").click()
        page.locator(".whole .text").wait_for()
        with page.expect_response(lambda answer: "/overview" in answer.url and answer.json()["sets"][0]["is_settled"]):
            ready.set()
        page.locator(".whole .text").wait_for()
        page.wait_for_timeout(300)
        assert page.get_by_label("Your text").input_value() == "stolen card"
