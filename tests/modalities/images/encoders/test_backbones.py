"""Encoders of timm and transformers; skipped if the package is not installed."""

import json
import sys

import numpy as np
import pytest
import torch

from nonneg.errors import InputError
from nonneg.modalities.images import Images, ViewConfig
from nonneg.models import Model, ModelConfig, load
from nonneg.training import TrainConfig, train


@pytest.fixture
def timm():
    return pytest.importorskip("timm", exc_type=ImportError)


@pytest.fixture
def transformers():
    found = pytest.importorskip("transformers", exc_type=ImportError)
    pytest.importorskip("transformers.models.vit.modeling_vit", exc_type=ImportError)
    return found


def again(model, folder, images):
    """Save and load a model, and check that it is exactly the same."""
    model.save(folder)
    loaded = load(folder)
    with torch.inference_mode():
        expected = model.eval()(images)
        assert torch.equal(loaded(images), expected)
    assert loaded.config == model.config
    return loaded


@pytest.mark.parametrize("package", ["timm", "transformers"])
def test_the_error_for_a_missing_package_names_the_extra(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"'{package}:some'.*nonneg\[{package}\]"):
        Model(ModelConfig(f"{package}:some", Images(channels=3)))


# timm


@pytest.mark.parametrize(
    ("name", "side", "width"),
    [
        ("resnet10t", 64, 512),
        ("mobilenetv3_small_050", 64, 1024),  # its head is wider than its last feature map
        ("test_vit", 96, 64),
        ("swin_tiny_patch4_window7_224", 64, 768),  # computes tables that are not saved
    ],
)
def test_a_timm_model_is_built_saved_and_loaded(timm, name, side, width, tmp_path):
    model = Model(ModelConfig(f"timm:{name}", Images(channels=1, height=side, width=side), 16, 12))
    images = torch.rand(2, 1, side, side)
    h, z = model.eval().forward_layers(images)
    assert (h.shape, z.shape) == ((2, width), (2, 12))
    again(model, tmp_path / "model", images)


@pytest.mark.parametrize("name", ["no_such_model", "hf-hub:someone/model", "local-dir:/tmp", "../x"])
def test_an_unknown_timm_model_is_an_error(timm, name):
    with pytest.raises(InputError, match=f"encoder is 'timm:{name}'"):
        Model(ModelConfig(f"timm:{name}", Images(channels=3)))


def test_published_weights_of_timm_are_read_from_safetensors_only(timm, monkeypatch):
    requests = []
    monkeypatch.setattr("timm.models._hub.hf_hub_download", lambda **options: requests.append(options) or 1 / 0)
    with pytest.raises(InputError, match="encoder 'timm:resnet10t'"):
        Model(ModelConfig("timm:resnet10t", Images(channels=3, pretrained=True)))
    assert [options["filename"] for options in requests] == ["model.safetensors"]


def test_loading_a_saved_timm_model_downloads_nothing(timm, monkeypatch, tmp_path):
    Model(ModelConfig("timm:resnet10t", Images(channels=3), 16, 12)).save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["modality"]["pretrained"] = True
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("timm.models._hub.hf_hub_download", lambda **options: 1 / 0)
    assert load(tmp_path / "model").modality.pretrained


# transformers

VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "patch_size": 8}
KINDS = {
    "vit": ({**VIT, "image_size": 32}, 32),
    "vit_mae": ({**VIT, "image_size": 32}, 32),
    "dinov2": ({**VIT, "image_size": 32}, 32),
    "clip": ({"vision_config": {**VIT, "image_size": 32}}, 32),
    "swin": ({"embed_dim": 16, "depths": [1, 1], "num_heads": [1, 2], "image_size": 32, "window_size": 4}, 32),
    "resnet": ({"embedding_size": 8, "hidden_sizes": [8, 24], "depths": [1, 1], "layer_type": "basic"}, 24),
    "convnext": ({"hidden_sizes": [8, 24], "depths": [1, 1], "num_stages": 2}, 24),
}


def published(transformers, kind, folder, weights=True):
    """Write a folder like one on the hub."""
    settings = transformers.AutoConfig.for_model(kind, **KINDS[kind][0])
    if not weights:
        settings.save_pretrained(folder)
        return None
    network = transformers.AutoModel.from_config(settings)
    network.save_pretrained(folder)
    return network


@pytest.mark.parametrize("kind", KINDS)
def test_a_vision_model_of_transformers_is_built_saved_and_loaded(transformers, kind, tmp_path):
    published(transformers, kind, tmp_path / "hub", weights=False)
    model = Model(ModelConfig(f"transformers:{tmp_path / 'hub'}", Images(channels=3), 16, 12))
    images = torch.rand(2, 3, 32, 32)
    torch.manual_seed(0)
    h, z = model.eval().forward_layers(images)
    assert (h.shape, z.shape) == ((2, KINDS[kind][1]), (2, 12))
    (tmp_path / "hub" / "config.json").unlink()  # the saved description suffices
    if kind == "vit_mae":  # shuffles its patches: the same except for rounding
        model.save(tmp_path / "model")
        torch.testing.assert_close(load(tmp_path / "model")(images), z)
    else:
        again(model, tmp_path / "model", images)


def test_channels_and_side_come_from_the_config(transformers, tmp_path):
    published(transformers, "vit", tmp_path, weights=False)
    model = Model(ModelConfig(f"transformers:{tmp_path}", Images(channels=1, height=16, width=16), 16, 12))
    assert model(torch.rand(2, 1, 16, 16)).shape == (2, 12)


@pytest.mark.parametrize("kind", ["vit", "clip"])
def test_a_pretrained_model_has_the_published_weights(transformers, kind, tmp_path):
    network = published(transformers, kind, tmp_path)
    network = network.vision_model if kind == "clip" else network
    model = Model(ModelConfig(f"transformers:{tmp_path}", Images(channels=3, pretrained=True), 16, 12)).eval()
    images = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(model(images, "encoder"), network.eval()(pixel_values=images).pooler_output)


def test_a_frozen_encoder_keeps_the_published_weights(transformers, tmp_path):
    network = published(transformers, "resnet", tmp_path / "hub").eval()  # has batch norms
    images = np.random.default_rng(0).integers(0, 256, (16, 32, 32, 3), dtype=np.uint8)
    config = TrainConfig(
        encoder=f"transformers:{tmp_path / 'hub'}",
        modality=Images(channels=3, pretrained=True, frozen=True, views=ViewConfig(flip_p=0.5)),
        epochs=1,
        warmup_epochs=0,
        batch_size=8,
        features=8,
        accelerator="cpu",
    )
    model = load(train(config, tmp_path / "run", source=images, progress=False))
    inputs = model.modality.inputs(torch.from_numpy(images))
    with torch.inference_mode():
        expected = network(pixel_values=inputs).pooler_output.flatten(1)
        torch.testing.assert_close(model(inputs, "encoder"), expected)
    with pytest.raises(InputError, match=r"frozen is true.*pretrained"):
        config.replace(pretrained=False)


def test_a_pooler_that_was_not_published_is_not_used(transformers, tmp_path):
    settings = transformers.AutoConfig.for_model("vit", **KINDS["vit"][0])
    network = transformers.ViTForImageClassification(settings).eval()
    network.save_pretrained(tmp_path / "hub")
    model = Model(ModelConfig(f"transformers:{tmp_path / 'hub'}", Images(channels=3, pretrained=True), 16, 12)).eval()
    images = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        expected = network.vit(pixel_values=images).last_hidden_state[:, 0]
        torch.testing.assert_close(model(images, "encoder"), expected)
    again(model, tmp_path / "model", images)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"channels": 1}, r"channels is 1.*3"), ({"height": 16, "width": 16}, r"image_size is 16.*32")],
)
def test_published_weights_for_other_images_are_an_error(transformers, change, message, tmp_path):
    published(transformers, "vit", tmp_path)
    with pytest.raises(InputError, match=message):
        Model(ModelConfig(f"transformers:{tmp_path}", Images(**{"channels": 3, "pretrained": True, **change})))


def test_a_model_of_text_is_an_error(transformers, tmp_path):
    transformers.AutoConfig.for_model(
        "bert", hidden_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=9
    ).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="input_ids"):
        Model(ModelConfig(f"transformers:{tmp_path}", Images(channels=3)))


def test_a_missing_model_of_transformers_is_an_error_of_one_line(transformers, tmp_path):
    with pytest.raises(InputError, match=r"encoder 'transformers:.*nothing'") as error:
        Model(ModelConfig(f"transformers:{tmp_path}/nothing", Images(channels=3)))
    assert "\n" not in str(error.value)


@pytest.fixture
def saved(transformers, tmp_path):
    published(transformers, "vit", tmp_path / "hub", weights=False)
    Model(ModelConfig(f"transformers:{tmp_path / 'hub'}", Images(channels=3), 16, 12)).save(tmp_path / "model")
    return tmp_path / "model"


def backbone_changed(folder, **change):
    content = json.loads((folder / "config.json").read_text())
    content["backbone"]["config"] |= change
    content.pop("checksum", None)  # a stranger who changes the config leaves out its checksum
    (folder / "config.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    "change",
    [
        {"auto_map": {"AutoModel": "someone/evil--model.Evil", "AutoConfig": "someone/evil--model.EvilConfig"}},
        {"_attn_implementation": "someone/evil-kernel"},
        {"attn_implementation": "someone/evil-kernel"},
        {"trust_remote_code": True},
        {"quantization_config": {"quant_method": "evil"}},
    ],
    ids=str,
)
def test_a_saved_config_cannot_load_code(saved, change):
    expected = load(saved)
    backbone_changed(saved, **change)
    images = torch.rand(1, 3, 32, 32)
    with torch.inference_mode():
        assert torch.equal(load(saved)(images), expected(images))
    assert not set(load(saved).backbone["config"]) & set(change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 10**6}, "more layers"),
        ({"num_hidden_layers": 10**12}, "1000000000000"),
        ({"hidden_size": 2**20}, "size mismatch|does not fit"),
        ({"model_type": "timm_wrapper", "architecture": "hf-hub:someone/evil"}, "model_type is 'timm_wrapper'"),
        ({"model_type": "bert"}, "input_ids"),
        ({"model_type": None}, "model_type is None"),
    ],
    ids=str,
)
def test_a_saved_config_that_does_not_fit_the_weights_is_an_error_of_one_line(saved, change, message):
    backbone_changed(saved, **change)
    with pytest.raises(InputError, match=message) as error:
        load(saved)
    assert "\n" not in str(error.value)
