"""Estimators of every class on disk and on the hub."""

import fnmatch
import json
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from nonneg.convert import NonNegativeClassifier, NonNegativeEmbedding, NonNegativePair
from nonneg.errors import InputError

KINDS = ["embedding", "pair", "classifier"]


@pytest.fixture(scope="module")
def fitted(clusters):
    """One fitted estimator per class, and a function that computes its output."""
    X, kinds = clusters
    embedding = NonNegativeEmbedding(16, 4, max_iter=10, random_state=0).fit(X)
    return {
        "embedding": (embedding, lambda e: e.transform(X).toarray()),
        "pair": (
            NonNegativePair(16, 4, max_iter=10, random_state=0).fit(X, X[:, :9]),
            lambda p: np.hstack([p.transform_a(X).toarray(), p.transform_b(X[:, :9]).toarray()]),
        ),
        "classifier": (NonNegativeClassifier.on(embedding, X, kinds), lambda c: c.decision_function(X)),
    }


def files_of(kind, folder):
    """The files of the config and of the weights."""
    name = {"classifier": ("classifier.json", "classifier.safetensors")}.get(kind, ("config.json", "model.safetensors"))
    return tuple(folder / each for each in name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_estimator_equals_the_saved_one(kind, fitted, tmp_path):
    estimator, computed = fitted[kind]
    folder = estimator.save_pretrained(tmp_path / "new" / "folder")
    again = type(estimator).from_pretrained(str(folder))
    np.testing.assert_array_equal(computed(again), computed(estimator))
    assert type(estimator)().get_params().keys() <= again.get_params().keys()
    assert again.n_iter_ == estimator.n_iter_
    card = (folder / "README.md").read_text()
    assert (
        card.startswith("---\nlibrary_name: nonneg\n") and f'{type(estimator).__name__}.from_pretrained("hub:' in card
    )
    suffixes = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert suffixes == {".json", ".safetensors", ".md"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda config, weights: config.unlink(), "holds no fitted KIND: .* is missing"),
        (lambda config, weights: weights.unlink(), "holds no fitted KIND: .* is missing"),
        (lambda config, weights: config.write_text("{}"), "it has no 'nonneg'"),
        (lambda config, weights: config.write_bytes(b"\xff"), "does not describe a nonneg KIND"),
        (lambda config, weights: config.write_text("[" * 100_000), "does not describe a nonneg KIND"),
        (lambda config, weights: config.write_text('{"nonneg": "Other"}'), "it describes a Other"),
        (lambda config, weights: weights.write_bytes(weights.read_bytes()[:-5]), "does not describe a nonneg KIND"),
        (lambda config, weights: flip(weights), "safetensors .*SHA-256"),
        (lambda config, weights: with_value(config, "n_iter", None), "does not describe a nonneg KIND"),
        (lambda config, weights: with_value(config, "n_iter", float("inf")), "does not describe a nonneg KIND"),
        (lambda config, weights: altered(config, weights, lambda t: t[..., :-1]), "its weights have the shapes"),
        (lambda config, weights: altered(config, weights, lambda t: t * torch.nan), "not finite numbers"),
        (lambda config, weights: altered(config, weights, lambda t: t.long()), "not finite numbers"),
    ],
)
def test_damage_is_reported_in_one_line(kind, damage, found, fitted, tmp_path):
    folder = fitted[kind][0].save_pretrained(tmp_path / "saved")
    damage(*files_of(kind, folder))
    with pytest.raises(InputError, match=found.replace("KIND", kind)) as error:
        type(fitted[kind][0]).from_pretrained(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_config_is_an_error(kind, fitted, tmp_path):
    folder = fitted[kind][0].save_pretrained(tmp_path / "saved")
    config, _ = files_of(kind, folder)
    content = json.loads(config.read_text())
    config.write_text(json.dumps(content | {"n_iter": content["n_iter"] + 1}))
    with pytest.raises(InputError, match=rf"{config.name}.* was changed"):
        type(fitted[kind][0]).from_pretrained(folder)


def flip(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def with_value(config, name, value):
    config.write_text(json.dumps(json.loads(config.read_text()) | {name: value, "checksum": None}))


def altered(config, weights, change):
    """Change the weights, and remove the digest from the config, as other software might."""
    save_file({name: change(tensor).contiguous() for name, tensor in load_file(weights).items()}, weights)
    with_value(config, "sha256", None)


@pytest.mark.parametrize("kind", ["embedding", "pair"])
def test_impossible_parameters_are_rejected(kind, fitted, tmp_path):
    folder = fitted[kind][0].save_pretrained(tmp_path / "saved")
    for parameters, found in (
        ({"noise": "loud"}, "noise is 'loud'"),
        ({"colour": 1}, "unexpected keyword .*colour"),
    ):
        known = fitted[kind][0].get_params()
        with_value(folder / "config.json", "parameters", known | parameters)
        with pytest.raises(InputError, match=f"nonneg {kind}: .*{found}"):
            type(fitted[kind][0]).from_pretrained(folder)


@pytest.mark.parametrize("kind", ["embedding", "pair"])
def test_setting_max_active_after_the_fit_does_not_change_the_loaded_codes(kind, clusters, fitted, tmp_path):
    estimator, computed = fitted[kind]
    before = computed(estimator)
    try:
        folder = estimator.set_params(max_active=2, device=torch.device("cpu")).save_pretrained(tmp_path / "saved")
    finally:
        estimator.set_params(max_active=4, device="auto")
    again = type(estimator).from_pretrained(folder)
    assert again.max_active == 2 and again.device == "cpu"
    np.testing.assert_array_equal(computed(again), before)


def test_numpy_parameters_are_saved_as_numbers(clusters, tmp_path):
    X, _ = clusters
    settings = {"max_iter": np.int64(5), "temperature": np.float32(0.25), "n_components": np.int16(16)}
    for fitted in (NonNegativeEmbedding(**settings).fit(X), NonNegativePair(**settings).fit(X, X)):
        again = type(fitted).from_pretrained(fitted.save_pretrained(tmp_path / type(fitted).__name__))
        assert (again.max_iter, again.temperature, again.n_iter_) == (5, 0.25, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_cannot_be_written_is_named(kind, fitted, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        fitted[kind][0].save_pretrained(tmp_path / "file" / "model")


# A stand-in for the hub's package, which may not be installed: its repositories are folders.


@pytest.fixture
def hub(monkeypatch, tmp_path):
    module = types.ModuleType("huggingface_hub")
    repositories, cache = tmp_path / "repositories", tmp_path / "cache" / "snapshots"
    commits = {None: "c0ffee", "v1": "c0ffee", "c0ffee": "c0ffee"}

    class HfApi:
        def create_repo(self, name, private, exist_ok):
            if name.startswith("somebody/"):
                raise PermissionError(f"403:\nnot yours: {name}")
            (repositories / name).mkdir(parents=True, exist_ok=exist_ok)

        def upload_folder(self, repo_id, folder_path, commit_message):
            shutil.copytree(folder_path, repositories / repo_id, dirs_exist_ok=True)
            return f"https://huggingface.co/{repo_id}"

    def snapshot_download(name, revision, allow_patterns):
        copy = cache / name.replace("/", "--") / commits[revision]
        for path in (repositories / name).rglob("*"):
            within = path.relative_to(repositories / name)
            if path.is_file() and any(fnmatch.fnmatch(str(within), pattern) for pattern in allow_patterns):
                (copy / within).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy / within)
        return str(copy)

    module.HfApi, module.snapshot_download = HfApi, snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return cache


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimator_is_pushed_and_fetched(kind, fitted, hub):
    estimator, computed = fitted[kind]
    assert estimator.push_to_hub("me/codes") == "https://huggingface.co/me/codes"
    for name in ("hub:me/codes", "hub:me/codes@v1"):
        np.testing.assert_array_equal(computed(type(estimator).from_pretrained(name)), computed(estimator))
    assert not list(Path(hub).rglob("*.md"))  # fetches only the files that it needs


@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_the_hub_are_reported_in_one_line(kind, fitted, hub):
    estimator, _ = fitted[kind]
    with pytest.raises(InputError, match=r"^somebody/codes .*403: not yours: somebody/codes$"):
        estimator.push_to_hub("somebody/codes")
    with pytest.raises(InputError, match=r"hub:codes.*hub:owner/name"):
        type(estimator).from_pretrained("hub:codes")
    with pytest.raises(InputError, match=f"^hub:me/nothing .*{kind}"):
        type(estimator).from_pretrained("hub:me/nothing")


def test_the_missing_package_and_its_extra_are_named(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"huggingface_hub.*'nonneg\[hub\]'"):
        fitted["pair"][0].push_to_hub("me/codes")
