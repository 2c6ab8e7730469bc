"""Encoders of new images, vectors and texts: their codes fit the features."""

import io
import re
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from PIL import Image

from nonneg import Features, InputError
from nonneg.convert import NonNegativeEmbedding, convert_file
from nonneg.evaluate import reordered
from nonneg.modalities.images import Images
from nonneg.models import EmbedOptions, Model, ModelConfig, embed_data
from nonneg.search import Query, encoder_for, find, search_folder, select_columns
from nonneg.select import keep


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """A folder with vectors of six clusters and a run of `nonneg convert` on them."""
    folder = tmp_path_factory.mktemp("converted")
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(6, 24))
    vectors = (centres[np.arange(200) % 6] + 0.4 * rng.normal(size=(200, 24))).astype(np.float32)
    np.save(folder / "v.npy", vectors)
    np.save(folder / "one.npy", vectors[7])
    embedding = NonNegativeEmbedding(24, 4, max_iter=20, random_state=0, device="cpu")
    convert_file(str(folder / "v.npy"), folder / "run", embedding=embedding, progress=False)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run of a network with random weights and the digits' features by it, of both layers."""
    folder = tmp_path_factory.mktemp("trained")
    torch.manual_seed(0)
    Model(ModelConfig("convnet_8", Images(channels=1, image_size=8), features=32)).save(folder / "run" / "model")
    embed_data(str(folder / "run"), "digits", folder / "digits.features", EmbedOptions("test", "both"), progress=False)
    return folder


def test_a_vector_gets_the_same_code_as_its_row_in_the_features(converted):
    features = Features.load(converted / "run.features")
    encoder = encoder_for(features, converted / "run")
    assert encoder.kind == "vector"
    for vector in (str(converted / "one.npy"), np.load(converted / "one.npy")):
        np.testing.assert_allclose(encoder.codes(vector).toarray()[0], features.codes[[7]].toarray()[0], atol=1e-6)


def test_a_vector_of_zeros_is_an_error(converted, tmp_path):
    np.save(tmp_path / "zeros.npy", np.zeros(24))
    with pytest.raises(InputError, match=r"zeros\.npy contains only zeros"):
        search_folder(converted / "run.features", Query(vector=str(tmp_path / "zeros.npy")))


def test_the_run_beside_the_features_is_the_default(converted):
    hits = search_folder(converted / "run.features", Query(vector=str(converted / "one.npy"), k=3))
    assert hits[0].id == "7" and hits[0].score == pytest.approx(1, abs=1e-5)
    assert search_folder(converted / "run", Query(vector=str(converted / "one.npy"), k=3)) == hits


@pytest.mark.parametrize("layer", ["projector", "encoder"])
def test_an_image_gets_the_same_code_as_its_sample_at_either_layer(trained, tmp_path, layer):
    features = Features.load(trained / f"digits-{layer}.features")
    Image.open(io.BytesIO(features.media(5))).save(tmp_path / "five.png")
    encoder = encoder_for(features, trained / "run")
    assert encoder.kind == "image"
    for image in (str(tmp_path / "five.png"), features.media(5)):
        np.testing.assert_allclose(
            encoder.codes(image).toarray()[0], sp.csr_array(features.codes).toarray()[5], atol=1e-5
        )


def test_a_run_that_was_trained_again_does_not_pass_for_the_one_that_made_the_features(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "all")
    features = Features.load(tmp_path / "all" / "digits-projector.features")
    assert encoder_for(features, tmp_path / "all" / "run").kind == "image"
    torch.manual_seed(1)
    again = Model(ModelConfig("convnet_8", Images(channels=1, image_size=8), features=32))
    again.save(tmp_path / "all" / "run" / "model")
    with pytest.raises(InputError, match="run has other weights"):
        encoder_for(features, tmp_path / "all" / "run")


def test_a_larger_image_is_resized_as_the_run_expects(trained, tmp_path):
    features = Features.load(trained / "digits-projector.features")
    Image.new("RGB", (50, 30), (90, 20, 10)).save(tmp_path / "photo.jpg")
    assert encoder_for(features, trained / "run").codes(tmp_path / "photo.jpg").shape == (1, 32)


def test_selected_and_reordered_features_get_their_columns(converted):
    features = Features.load(converted / "run.features")
    vector = str(converted / "one.npy")
    fewer = keep(keep(features, [9, 3, 5, 7]), [2, 0])
    whole = encoder_for(features, converted / "run").codes(vector).toarray()
    np.testing.assert_array_equal(encoder_for(fewer, converted / "run").codes(vector).toarray(), whole[:, [5, 9]])
    again = reordered(Features(features.codes[:, ::-1]), features)
    np.testing.assert_allclose(
        encoder_for(again, converted / "run").codes(vector).toarray(), again.codes[[7]].toarray(), atol=1e-6
    )


def test_select_columns_keeps_the_kind_of_matrix_and_fills_empty_columns_with_zeros():
    features = Features(np.eye(3, dtype=np.float32)).with_columns([2, -1, 0])
    weights = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(select_columns(weights, features), [[3, 0, 1], [6, 0, 4]])
    assert select_columns(sp.csr_array(weights), features).format == "csr"
    with pytest.raises(InputError, match="head makes codes of 2 features, expected at least 3"):
        select_columns(weights[:, :2], features, "head")


def test_a_run_of_another_width_or_layer_is_an_error_before_anything_is_loaded(converted, trained):
    narrow = Features(np.eye(5, dtype=np.float32))
    beyond = Features(np.eye(99, dtype=np.float32)).with_columns([98])
    encoder_layer = Features(np.eye(24, dtype=np.float32), provenance={"layer": "encoder"})
    for features, run, found in (
        (narrow, converted / "run", "run makes codes of 24 features, expected 5"),
        (narrow, trained / "run", "run makes codes of 32 features, expected 5"),
        (beyond, converted / "run", "run makes codes of 24 features, expected at least 99"),
        (encoder_layer, converted / "run", "layer encoder, expected projector"),
    ):
        with pytest.raises(InputError, match=found):
            encoder_for(features, run)
    other_width = encoder_for(Features(np.eye(5, dtype=np.float32), provenance={"layer": "encoder"}), trained / "run")
    with pytest.raises(InputError, match=r"run makes codes of \d+ features, expected 5"):
        other_width.codes(Features.load(trained / "digits-encoder.features").media(0))


def test_a_text_gets_the_code_of_its_sentence_vector(converted, tmp_path):
    library = pytest.importorskip("sentence_transformers", exc_type=ImportError)
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "moon", "rises"])}
    BertTokenizerFast(vocab=words).save_pretrained(tmp_path / "bert")
    shape = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=8, max_position_embeddings=16, **shape)).save_pretrained(tmp_path / "bert")
    parts = [Transformer(str(tmp_path / "bert")), Pooling(24, pooling_mode="mean")]
    model = library.SentenceTransformer(modules=parts, device="cpu")
    model.save(str(tmp_path / "model"))
    features = Features.load(converted / "run.features")
    encoder = encoder_for(features, converted / "run", str(tmp_path / "model"))
    assert encoder.kind == "text"
    code = encoder.codes("the moon rises")
    embedding = NonNegativeEmbedding.from_pretrained(converted / "run")
    np.testing.assert_allclose(
        code.toarray(), embedding.transform(model.encode(["the moon rises"])).toarray(), atol=1e-6
    )


def test_an_input_of_another_kind_than_the_run_takes_is_an_error(trained, converted):
    query = Query(vector=str(converted / "one.npy"))
    with pytest.raises(InputError, match=r"vector is given, but .*run encodes a new image"):
        search_folder(trained / "digits-projector.features", query, run=str(trained / "run"))


def test_a_recorded_sentence_model_that_is_missing_is_named(converted, tmp_path):
    codes = Features.load(converted / "run.features").codes
    for model, why in (("nobody/none", "not on this machine; .*nobody/none to download it"), (str(tmp_path), "folder")):
        features = Features(codes, provenance={"sentence_model": model})
        found = f"the features record the sentence model {re.escape(model)}, .*{why}"
        with pytest.raises(InputError, match=found):
            find(features, Query(text="moon"), run=str(converted / "run"))


@pytest.mark.parametrize(
    ("query", "run", "found"),
    [
        ({"vector": "v.npy"}, "run", r"v.npy.*\(200, 24\).*one vector"),
        ({"vector": "nowhere.npy"}, "run", "nowhere.npy"),
        ({"vector": "short.npy"}, "run", "vector has 3 numbers, expected 24"),
        ({"text": "moon"}, "run", "text needs the sentence model"),
        ({"image": "one.npy"}, "run", "image is given.*run encodes a new vector"),
        ({"vector": "one.npy"}, "nowhere", "nowhere holds no model"),
    ],
)
def test_an_input_that_cannot_be_encoded_is_an_error(query, run, found, converted):
    np.save(converted / "short.npy", np.ones(3))
    query = {kind: value if kind == "text" else str(converted / value) for kind, value in query.items()}
    with pytest.raises(InputError, match=found):
        find(Features.load(converted / "run.features"), Query(**query), run=converted / run)


def test_a_file_that_is_not_an_image_or_a_huge_image_is_an_error(trained, tmp_path):
    encoder = encoder_for(Features.load(trained / "digits-projector.features"), trained / "run")
    (tmp_path / "x.png").write_text("no image")
    with pytest.raises(InputError, match=r"x.png: the image cannot be decoded"):
        encoder.codes(tmp_path / "x.png")
    with pytest.raises(InputError) as raised:
        encoder.codes(tmp_path / "nosuch.png")
    assert str(raised.value).count("nosuch.png") == 1
    Image.new("1", (10_000, 8_000)).save(tmp_path / "huge.png")
    with pytest.raises(InputError, match=r"huge.png: .*10000 x 8000 pixels"):
        encoder.codes(tmp_path / "huge.png")
    with pytest.raises(InputError, match="the image cannot be decoded"):
        encoder.codes(b"")


@pytest.mark.parametrize(
    ("config", "found"), [(b"{", "damaged"), (b"[]", "list"), (b'{"nonneg": "NonNegativePair"}', "NonNegativePair")]
)
def test_a_damaged_or_unknown_run_is_an_error(features, tmp_path, config, found):
    (tmp_path / "config.json").write_bytes(config)
    with pytest.raises(InputError, match=found):
        encoder_for(features, tmp_path)


def test_features_that_name_no_run_need_one(tmp_path, features):
    plain = features.save(tmp_path / "x.features")
    with pytest.raises(InputError, match=r"x.features .*--run"):
        search_folder(plain, Query(vector="v.npy"))
    (tmp_path / "elsewhere").mkdir()
    runs = ("gone", str(tmp_path / "elsewhere"), "../elsewhere", r"\\host\share", 300 * "x")
    for place, run in enumerate(runs):
        named = Features(features.codes, provenance={"run": run}).save(tmp_path / "in" / f"{place}.features")
        with pytest.raises(InputError, match=rf"run {re.escape(run)}.*--run"):
            search_folder(named, Query(vector="v.npy"))


def test_a_model_that_features_name_is_never_fetched(converted, tmp_path, monkeypatch):
    """Features may come from strangers: only what is on this machine is loaded, without asking another one."""
    asked, models = [], []

    def snapshot_download(name, local_files_only=False, **options):
        asked.append((name, local_files_only))
        if name == "stranger/known":
            return str(converted / "run" / "model")
        raise FileNotFoundError(name)

    class SentenceTransformer:
        def __init__(self, name, **options):
            models.append((name, options))

        def encode(self, texts, show_progress_bar):
            return np.ones((len(texts), 24))

    hub, library = types.ModuleType("huggingface_hub"), types.ModuleType("sentence_transformers")
    hub.snapshot_download, hub.try_to_load_from_cache = snapshot_download, lambda *name: "modules.json"
    library.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    codes = Features.load(converted / "run.features").codes
    for name in ("stranger/known", "stranger/other"):
        Features(codes, provenance={"run": f"hub:{name}"}).save(tmp_path / f"{Path(name).name}.features")
    query = Query(vector=str(converted / "one.npy"))
    assert search_folder(tmp_path / "known.features", query).hits
    with pytest.raises(InputError, match=r"no copy on this machine.*--run hub:stranger/other"):
        search_folder(tmp_path / "other.features", query)
    assert asked == [("stranger/known", True), ("stranger/other", True)]
    named = Features(codes, provenance={"sentence_model": "stranger/sentences"})
    encoder_for(named, converted / "run").codes("moon")
    encoder_for(named, converted / "run", "mine").codes("moon")
    assert models == [("stranger/sentences", {"local_files_only": True}), ("mine", {})]
