import dataclasses
import json
import re
import sys
import types

import pytest
import torch
from safetensors.torch import load_file, save_file

from nonneg.errors import InputError
from nonneg.modalities.images import Images
from nonneg.models import Model, load, verify
from tests.models.conftest import CONFIG


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
def test_a_loaded_model_equals_the_saved_one(change, tmp_path):
    model = Model(dataclasses.replace(CONFIG, **change))
    images = torch.rand(3, 1, 32, 32)
    model(images)  # changes the statistics of batch norms
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.config == model.config
    assert not loaded.training
    state = model.state_dict()
    assert list(loaded.state_dict()) == list(state)
    assert all(torch.equal(tensor, state[name]) for name, tensor in loaded.state_dict().items())
    with torch.inference_mode():
        assert torch.equal(loaded(images), model.eval()(images))


def test_a_run_is_loaded_from_its_folder_or_its_models_folder(folder):
    assert load(folder.parent).config == load(str(folder)).config == CONFIG


def test_a_loaded_model_can_be_trained_further(folder):
    model = load(folder).train()
    model(torch.rand(2, 1, 8, 8)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_folder_with_other_files_is_not_written_into(model, tmp_path):
    (tmp_path / "README.md").write_text("my notes")
    with pytest.raises(InputError, match=r"README\.md"):
        model.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_wrong_sizes_are_an_error_before_they_take_memory(folder):
    import resource

    # All tensors are present, and the first is far too large, in the smallest type.
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
        file.truncate(8 + len(text) + end)  # a sparse file: no bytes on disk
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"does not fit its config\.json"):
        load(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1.5e6  # kB: not four bytes per entry


def test_a_changed_byte_of_the_weights_is_an_error(folder):
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-2000] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"model\.safetensors is damaged"):
        load(folder)
    with pytest.raises(InputError, match=r"model\.safetensors is damaged"):
        verify(folder)


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


def test_the_model_card_describes_the_model_and_how_to_load_it(folder):
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: nonneg\n")
    assert 'nonneg.load("hub:owner/name")' in card
    assert "| encoder | convnet_8 |" in card
    assert json.loads((folder / "config.json").read_text())["format"] == 2


@pytest.mark.parametrize("path", [None, 3])
def test_a_path_of_another_type_is_an_error(path):
    with pytest.raises(InputError, match="path is "):
        load(path)


def test_a_folder_without_a_model_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"config\.json is missing"):
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
        ({"height": 16}, r"config\.json was changed since"),
        ({"image_size": 5}, r"config\.json was changed since"),
    ],
    ids=str,
)
def test_a_config_that_does_not_fit_the_weights_is_an_error_of_one_line(folder, change, message):
    changed(folder, **change)
    with pytest.raises(InputError, match=message) as error:
        load(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["{", "[]", "{}", "[" * 100_000, "\xff"])
def test_an_invalid_config_is_an_error_that_names_the_file(folder, text):
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"config\.json does not describe"):
        load(folder)


def test_truncated_weights_are_an_error_that_names_the_file(folder):
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-10])
    with pytest.raises(InputError, match=r"model\.safetensors does not fit"):
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
def test_weights_of_another_type_or_name_are_an_error_that_names_them(folder, name, tensor):
    save_file({**load_file(folder / "model.safetensors"), name: tensor}, folder / "model.safetensors")
    with pytest.raises(InputError, match=rf"model\.safetensors does not fit .*{name}"):
        load(folder)


# The hub, with a substitute for its package, which need not be installed.


@pytest.fixture
def hub(monkeypatch):
    module = types.ModuleType("huggingface_hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


def test_a_model_on_the_hub_is_loaded_by_name(hub, folder):
    requests = []
    hub.snapshot_download = lambda name, **options: requests.append((name, options)) or str(folder)
    assert load("hub:someone/digits").config == CONFIG
    assert load("hub:someone/digits@v1.0").config == CONFIG
    files = ["config.json", "model.safetensors"]
    assert requests == [
        ("someone/digits", {"revision": None, "allow_patterns": files}),
        ("someone/digits", {"revision": "v1.0", "allow_patterns": files}),
    ]


@pytest.mark.parametrize(
    ("kind", "parent", "message"),
    [
        ("RepositoryNotFoundError", OSError, "no such model"),
        ("RevisionNotFoundError", OSError, "no such model"),
        ("LocalEntryNotFoundError", FileNotFoundError, "cannot be reached"),
        ("OfflineModeIsEnabled", ConnectionError, "cannot be reached"),
        ("HFValidationError", ValueError, "several lines"),
    ],
)
def test_an_error_of_the_hub_is_reported_in_one_line(hub, kind, parent, message):
    def fail(name, **options):
        raise type(kind, (parent,), {})("several\nlines")

    hub.snapshot_download = fail
    with pytest.raises(InputError, match=rf"hub:someone/digits .*{message}") as error:
        load("hub:someone/digits")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["hub:", "hub:digits", "hub:a/b/c", "hub:../../etc/passwd", "hub:a/b@"])
def test_an_invalid_name_on_the_hub_is_an_error(name):
    with pytest.raises(InputError, match=rf"'{re.escape(name)}'.*hub:owner/name@revision"):
        load(name)


def test_the_error_for_a_missing_hub_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"huggingface_hub.*nonneg\[hub\]"):
        load("hub:someone/digits")
