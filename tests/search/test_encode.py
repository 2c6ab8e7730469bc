"""New images, vectors and texts: the code they get is the one that features have."""

import numpy as np
import pytest
import torch
from PIL import Image

from nonneg import Features, InputError
from nonneg.convert import NonNegativeEmbedding, convert_file
from nonneg.evaluate import reordered
from nonneg.modalities.images import open_source
from nonneg.models import Model, ModelConfig, embed_data
from nonneg.search import Query, find, search_folder
from nonneg.search._encode import encoded
from nonneg.select import keep


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """Vectors of six kinds, a run of `nonneg convert` on them, and the folder of both."""
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
    """A network with random weights as a run, the features of the digits by it, and the folder of both."""
    folder = tmp_path_factory.mktemp("trained")
    torch.manual_seed(0)
    Model(ModelConfig("convnet_8", channels=1, features=32, image_size=8)).save(folder / "run" / "model")
    embed_data(str(folder / "run"), "digits", folder / "digits.features", split="test", progress=False)
    return folder


def test_a_vector_gets_the_code_that_its_row_has(converted):
    features = Features.load(converted / "run.features")
    code = encoded(features, "vector", str(converted / "one.npy"), converted / "run")
    np.testing.assert_allclose(code.toarray()[0], features.codes[[7]].toarray()[0], atol=1e-6)


def test_the_run_beside_the_features_encodes_if_none_is_given(converted):
    hits = search_folder(converted / "run.features", Query(vector=str(converted / "one.npy"), k=3))
    assert hits[0].id == "7" and hits[0].score == pytest.approx(1, abs=1e-5)
    assert search_folder(converted / "run", Query(vector=str(converted / "one.npy"), k=3)) == hits


def test_an_image_gets_the_code_that_its_sample_has(trained, tmp_path):
    features = Features.load(trained / "digits.features")
    pixels = open_source("digits", "test").images[5, :, :, 0]
    Image.fromarray(pixels).save(tmp_path / "five.png")
    code = encoded(features, "image", str(tmp_path / "five.png"), trained / "run").toarray()[0]
    np.testing.assert_allclose(code, features.codes[5], atol=1e-5)


def test_a_larger_image_is_made_as_small_as_the_run_wants_it(trained, tmp_path):
    features = Features.load(trained / "digits.features")
    Image.new("RGB", (50, 30), (90, 20, 10)).save(tmp_path / "photo.jpg")
    assert encoded(features, "image", str(tmp_path / "photo.jpg"), trained / "run").shape == (1, 32)


def test_selected_and_reordered_features_get_their_columns(converted):
    features = Features.load(converted / "run.features")
    vector = str(converted / "one.npy")
    fewer = keep(keep(features, [9, 3, 5, 7]), [2, 0])
    whole = encoded(features, "vector", vector, converted / "run").toarray()
    np.testing.assert_array_equal(encoded(fewer, "vector", vector, converted / "run").toarray(), whole[:, [5, 9]])
    turned = Features(features.codes[:, ::-1])
    again = reordered(turned, features)
    np.testing.assert_allclose(
        encoded(again, "vector", vector, converted / "run").toarray(), again.codes[[7]].toarray(), atol=1e-6
    )


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
    code = encoded(features, "text", "the moon rises", converted / "run", str(tmp_path / "model"))
    embedding = NonNegativeEmbedding.from_pretrained(converted / "run")
    np.testing.assert_allclose(
        code.toarray(), embedding.transform(model.encode(["the moon rises"])).toarray(), atol=1e-6
    )


def test_a_vector_for_a_run_of_images_is_refused_as_such(trained, converted):
    query = Query(vector=str(converted / "one.npy"))
    with pytest.raises(InputError, match=r"run was trained on images, expected an image \(--image\)"):
        search_folder(trained / "digits.features", query)


@pytest.mark.parametrize(
    ("query", "run", "sentence"),
    [
        ({"vector": "v.npy"}, "run", r"holds float32 of shape \(200, 24\), expected one vector"),
        ({"vector": "nowhere.npy"}, "run", "nowhere.npy"),
        ({"vector": "short.npy"}, "run", "the vector has 3 numbers, expected 24, as .*run was fitted on"),
        ({"text": "moon"}, "run", "text is given, but no sentence model, expected the name"),
        ({"image": "one.npy"}, "run", r"run was made from vectors, expected a vector \(--vector\) or a text \(--text"),
        ({"vector": "one.npy"}, "nowhere", "nowhere holds no fitted embedding"),
    ],
)
def test_what_cannot_be_encoded_is_refused(query, run, sentence, converted):
    np.save(converted / "short.npy", np.ones(3))
    query = {kind: value if kind == "text" else str(converted / value) for kind, value in query.items()}
    with pytest.raises(InputError, match=sentence):
        find(Features.load(converted / "run.features"), Query(**query), run=converted / run)


def test_an_image_that_is_none_is_refused(trained, converted, tmp_path):
    (tmp_path / "x.png").write_text("no image")
    features = Features.load(trained / "digits.features")
    with pytest.raises(InputError, match=r"x.png is no image that can be read: not an image"):
        encoded(features, "image", str(tmp_path / "x.png"), trained / "run")
    with pytest.raises(InputError, match="makes codes of 24 features, expected 32: it is not the run that made"):
        encoded(features, "vector", str(converted / "one.npy"), converted / "run")


def test_features_that_name_no_run_ask_for_one(tmp_path, features):
    plain = features.save(tmp_path / "x.features")
    with pytest.raises(InputError, match="does not say which run made it, expected --run"):
        search_folder(plain, Query(vector="v.npy"))
    named = Features(features.codes, provenance={"run": "gone"}).save(tmp_path / "y.features")
    with pytest.raises(InputError, match="was made by the run gone, which is not beside it, expected --run"):
        search_folder(named, Query(vector="v.npy"))
