import json

import numpy as np
import pytest
import torch

from nonneg.data import open_source
from nonneg.errors import InputError
from nonneg.models import Model, ModelConfig, load

CONFIG = ModelConfig(encoder="convnet_8", channels=1, projector_width=16, features=12, rectify="relu", top_k=0)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(CONFIG)


@pytest.fixture
def test_digits():
    return open_source("digits", "test")


def dense(features):
    return features.codes.toarray() if features.is_sparse else features.codes


@pytest.mark.parametrize(("rectify", "top_k", "lowest"), [("relu", 0, 0), ("top_k", 3, 0), ("none", 0, None)])
def test_non_negativity_is_part_of_the_model(rectify, top_k, lowest, test_digits):
    torch.manual_seed(0)
    config = ModelConfig("convnet_8", 1, 16, 12, rectify, top_k)
    codes = dense(Model(config).embed(test_digits))
    assert codes.min() < 0 if lowest is None else codes.min() == lowest
    if top_k:
        assert (codes > 0).sum(1).max() <= top_k


def test_embed_uses_batch_norm_in_evaluation_mode(model, test_digits):
    model.train()
    whole, pieces = model.embed(test_digits), model.embed(test_digits, batch_size=7)
    np.testing.assert_allclose(dense(whole), dense(pieces), rtol=1e-5, atol=1e-6)
    assert model.training  # and leaves the model as it was


def test_embed_carries_samples_labels_and_provenance(model, test_digits):
    features = model.embed(test_digits, "encoder")
    assert features.shape == (397, 512)
    assert features.provenance["layer"] == "encoder"
    assert features.id(4) == test_digits.ids[4]
    np.testing.assert_array_equal(features.labels, test_digits.labels)
    import io

    from PIL import Image

    picture = np.asarray(Image.open(io.BytesIO(features.media(4))))
    np.testing.assert_array_equal(picture, test_digits.images[4, ..., 0])


def test_a_saved_model_gives_the_same_features(model, test_digits, tmp_path):
    model.save(tmp_path / "run" / "model")
    expected = dense(model.embed(test_digits))
    for path in (tmp_path / "run", tmp_path / "run" / "model"):
        loaded = load(path)
        assert loaded.config == CONFIG
        np.testing.assert_array_equal(dense(loaded.embed(test_digits)), expected)


def test_data_of_other_channels_is_refused(model):
    with pytest.raises(InputError, match="shapes/test has images of 3 channels, the model expects 1"):
        model.embed(open_source("shapes", "test"))


def test_what_is_not_a_model_gives_one_clear_sentence(model, tmp_path):
    with pytest.raises(InputError, match="holds no trained model"):
        load(tmp_path)
    folder = tmp_path / "model"
    model.save(folder)
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-10])
    with pytest.raises(InputError, match=r"does not fit its config\.json"):
        load(folder)
    model.save(folder)
    config = json.loads((folder / "config.json").read_text())
    for change, message in [
        ({"rectify": "softplus"}, "saved under NonNegative 'relu', this module is 'softplus'"),
        ({"rectify": "foo"}, "kind is 'foo'"),
        ({"features": 13}, r"size mismatch for projector\.2\.weight"),
        ({"features": 10**12}, "does not fit"),
        ({"features": 2.5}, "does not describe a nonneg model"),
        ({"features": -1}, "does not fit"),
        ({"channels": None}, "does not describe a nonneg model"),
        ({"encoder": "vgg"}, "encoder is 'vgg'"),
        ({"colour": "red"}, "does not describe a nonneg model"),
    ]:
        (folder / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(InputError, match=message) as error:
            load(folder)
        assert "\n" not in str(error.value)
    for text in ("{", "[]", "{}", "[" * 100_000):
        (folder / "config.json").write_text(text)
        with pytest.raises(InputError, match="does not describe a nonneg model"):
            load(folder)


def test_an_unknown_layer_is_refused_and_the_model_left_as_it_was(model, test_digits):
    model.train()
    with pytest.raises(InputError, match="layer is 'encodr', expected encoder or projector"):
        model.embed(test_digits, "encodr")
    assert model.training
