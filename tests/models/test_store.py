import dataclasses
import json
import sys
import types

import pytest
import torch
from safetensors.torch import load_file, save_file

from nonneg.errors import InputError
from nonneg.modalities.images import Images
from nonneg.models import Model, ModelConfig, load

CONFIG = ModelConfig("convnet_8", Images(channels=1), projector_width=16, features=12)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(CONFIG)


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "model")
    return tmp_path / "model"


def changed(folder, **change):
    """Change fields of a saved config, its own or its modality's."""
    config = json.loads((folder / "config.json").read_text())
    modality = {name: change.pop(name) for name in list(change) if name in config["modality"]}
    config["modality"] |= modality
    (folder / "config.json").write_text(json.dumps({**config, **change}))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"encoder": "convnet_24"},
        {"encoder": "resnet18", "modality": Images(channels=1, stem="small_pad_2")},
        {"encoder": "resnet34"},
        {"encoder": "resnet50", "modality": Images(channels=1, stem="small")},
        {"projector_depth": 3, "projector_batch_norm": True},
        {"projector_depth": 1},
        {"projector_depth": 0, "features": 512},
        {"classes": 4, "rectify_weight": True},
        {"rectify": "top_k", "top_k": 3},
        {"rectify": "none"},
        {"modality": Images(channels=1, mean=(0.5,), std=(0.25,), image_size=8)},
    ],
    ids=str,
)
def test_a_saved_model_is_loaded_as_it_was(change, tmp_path):
    model = Model(dataclasses.replace(CONFIG, **change))
    images = torch.rand(3, 1, 32, 32)
    model(images)  # moves the batch norms' statistics
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.config == model.config
    assert not loaded.training
    state = model.state_dict()
    assert list(loaded.state_dict()) == list(state)
    assert all(torch.equal(tensor, state[name]) for name, tensor in loaded.state_dict().items())
    with torch.inference_mode():
        assert torch.equal(loaded(images), model.eval()(images))


def test_a_run_is_loaded_by_its_folder_or_its_models(folder):
    assert load(folder.parent).config == load(str(folder)).config == CONFIG


def test_a_loaded_model_can_be_trained_on(folder):
    model = load(folder).train()
    model(torch.rand(2, 1, 8, 8)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_folder_with_other_files_is_not_written_into(model, tmp_path):
    (tmp_path / "README.md").write_text("my notes")
    with pytest.raises(InputError, match=r"holds other files \(README\.md\)"):
        model.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_wrong_sizes_are_refused_before_they_take_memory(folder):
    import resource

    # Every tensor is there under its name, and the first is far too large, in the smallest of types.
    tensors = iter(load(folder).state_dict().items())
    header = {next(tensors)[0]: {"dtype": "F8_E4M3", "shape": [10**9], "data_offsets": [0, 10**9]}}
    end = 10**9
    for name, tensor in tensors:
        kind = {torch.float32: "F32", torch.int64: "I64", torch.uint8: "U8"}[tensor.dtype]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)  # a hole: no bytes on disk
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"does not fit its config\.json"):
        load(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1.5e6  # kB: not four bytes an entry


def test_lower_precision_is_loaded_as_float32(model, folder):
    model.bfloat16().save(folder)
    loaded = load(folder)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    assert torch.equal(loaded.projector[0].weight, model.projector[0].weight.float())


def test_weights_that_share_memory_are_saved(folder):
    model = Model(CONFIG)
    model.projector[2].bias = torch.nn.Parameter(model.projector[0].bias.detach()[:12])
    model.save(folder)
    assert torch.equal(load(folder).projector[2].bias, model.projector[2].bias)


def test_the_card_says_how_to_load_and_what_it_is(folder):
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: nonneg\n")
    assert 'nonneg.load("hub:owner/name")' in card
    assert "| encoder | convnet_8 |" in card
    assert json.loads((folder / "config.json").read_text())["format"] == 2


def test_a_folder_without_model_is_said_to_be(tmp_path):
    with pytest.raises(InputError, match="holds no trained model"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rectify": "softplus"}, "NonNegative 'relu'.*'softplus'"),
        ({"rectify": "foo"}, "does not describe a nonneg model: rectify is 'foo'"),
        ({"features": 13}, r"does not fit its config\.json: .*size mismatch for projector\.2\.(weight|bias)"),
        ({"features": 10**12}, "does not fit"),
        ({"channels": 2**62}, "does not fit"),
        ({"features": 2.5}, "does not describe a nonneg model: features is 2.5"),
        ({"features": -1}, "does not describe a nonneg model: features is -1"),
        ({"channels": None}, "does not describe a nonneg model: .*channels is None"),
        ({"mean": "0.5"}, "does not describe a nonneg model: .*mean is '0.5'"),
        ({"encoder": "vgg"}, "encoder is 'vgg'"),
        ({"colour": "red"}, "does not describe a nonneg model: colour"),
        ({"format": 1}, "does not describe a nonneg model: its format is 1"),
        ({"backbone": [1]}, "does not describe a nonneg model: .*backbone"),
        ({"modality": "images"}, "does not describe a nonneg model: modality"),
        ({"modality": {"name": "smells"}}, "does not describe a nonneg model: modality.name is 'smells'.*images"),
        ({"projector_depth": 3}, "does not fit"),
        ({"projector_depth": 0}, "cannot be loaded: features is 12 with projector_depth 0"),
        ({"classes": 3}, r"does not fit its config\.json: .*classifier\.weight"),
    ],
    ids=str,
)
def test_a_config_that_is_not_the_weights_gives_one_clear_sentence(folder, change, message):
    changed(folder, **change)
    with pytest.raises(InputError, match=message) as error:
        load(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["{", "[]", "{}", "[" * 100_000, "\xff"])
def test_what_is_no_config_gives_one_clear_sentence(folder, text):
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="does not describe a nonneg model"):
        load(folder)


def test_torn_weights_give_one_clear_sentence(folder):
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-10])
    with pytest.raises(InputError, match=r"does not fit its config\.json"):
        load(folder)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("projector.0.bias", torch.zeros(16, dtype=torch.int32)),
        ("projector.3._extra_state", torch.zeros((), dtype=torch.uint8)),
        ("projector.3._extra_state", torch.zeros(10_000, dtype=torch.uint8)),
        ("projector.3._extra_state", torch.zeros(4)),
        ("surplus", torch.zeros(1)),
    ],
)
def test_weights_of_another_kind_give_one_clear_sentence(folder, name, tensor):
    save_file({**load_file(folder / "model.safetensors"), name: tensor}, folder / "model.safetensors")
    with pytest.raises(InputError, match=rf"does not fit its config\.json: .*{name}"):
        load(folder)


# The hub: the package is stood in for, as it need not be installed.


@pytest.fixture
def hub(monkeypatch):
    module = types.ModuleType("huggingface_hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


def test_a_model_on_the_hub_is_loaded_by_name(hub, folder):
    asked = []
    hub.snapshot_download = lambda name, **options: asked.append((name, options)) or str(folder)
    assert load("hub:someone/digits").config == CONFIG
    assert load("hub:someone/digits@v1.0").config == CONFIG
    files = ["config.json", "model.safetensors"]
    assert asked == [
        ("someone/digits", {"revision": None, "allow_patterns": files}),
        ("someone/digits", {"revision": "v1.0", "allow_patterns": files}),
    ]


@pytest.mark.parametrize(
    ("kind", "parent", "message"),
    [
        ("RepositoryNotFoundError", OSError, "there is no such model or revision on the Hugging Face Hub"),
        ("RevisionNotFoundError", OSError, "there is no such model or revision on the Hugging Face Hub"),
        ("LocalEntryNotFoundError", FileNotFoundError, "cannot be reached, and there is no copy here yet"),
        ("OfflineModeIsEnabled", ConnectionError, "cannot be reached, and there is no copy here yet"),
        ("HFValidationError", ValueError, "cannot be fetched: several lines"),
    ],
)
def test_what_the_hub_refuses_is_said_in_one_sentence(hub, kind, parent, message):
    def refuse(name, **options):
        raise type(kind, (parent,), {})("several\nlines")

    hub.snapshot_download = refuse
    with pytest.raises(InputError, match=rf"hub:someone/digits cannot be fetched: .*|{message}") as error:
        load("hub:someone/digits")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["hub:", "hub:digits", "hub:a/b/c", "hub:../../etc/passwd", "hub:a/b@"])
def test_a_name_that_is_none_is_refused_before_anything_is_asked(name):
    with pytest.raises(InputError, match="names no model, expected hub:owner/name or hub:owner/name@revision"):
        load(name)


def test_without_the_hubs_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"needs the package huggingface_hub, .* pip install 'nonneg\[hub\]'"):
        load("hub:someone/digits")
