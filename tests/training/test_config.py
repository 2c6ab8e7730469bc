import dataclasses
import os
import typing

import pytest

from nonneg.errors import InputError
from nonneg.modalities.images import ENCODERS
from nonneg.rectify import KINDS
from nonneg.training import TrainConfig, as_toml, load_recipe, recipes


@pytest.mark.parametrize("name", sorted(recipes()))
def test_every_recipe_is_the_same_after_writing_and_loading_it(name, tmp_path):
    config = load_recipe(name)
    (tmp_path / "again.toml").write_text(as_toml(config))
    assert load_recipe(str(tmp_path / "again.toml")) == config
    for field in dataclasses.fields(config):
        assert field.name in as_toml(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epocs = 3", "epocs .*epochs"),
        ("[modality.views]\nrotat = 3.0", r"modality\.views\.rotat .*modality\.views\.rotate\b"),
        ("epochs = 2.5", r"epochs is 2\.5.*whole"),
        ("epochs = true", "epochs is True.*whole"),
        ("lr = 'high'", "lr is 'high'.*number"),
        ("rectify = 'rely'", "rectify is 'rely'.*none, relu"),
        ("modality = 3", "modality is 3.*table"),
        ("[modality]\nviews = 3", r"modality\.views is 3.*table"),
        ("[modality]\nname = 'smells'", r"modality\.name is 'smells'.*images"),
        ("epochs = 0", "epochs is 0.*1"),
        ("batch_size = 1", "batch_size is 1.*2"),
        ("lr = -0.1", r"lr is -0\.1.*0"),
        ("lr = nan", "lr is nan.*finite"),
        ("[modality.views]\nnoise = inf", r"views\.noise is inf.*finite"),
        ("a = " + "[" * 5000, "TOML"),
        ("epochs = 3", "warmup_epochs is 5.*epochs, 3"),
        ("top_k = 3", "top_k is 3.*rectify 'relu'"),
        ("rectify = 'top_k'\ntop_k = 500", "top_k is 500.*features"),
        ("share = 0.1", "share is 0.1.*standardise False"),
        ("share = 0.1\nstandardise = true\nrectify = 'exp'", "share is 0.1.*rectify 'exp'"),
        ("share = 1.0\nstandardise = true", "share is 1.0"),
        ("dense_weight = 0.5\nrectify = 'none'", "dense_weight is 0.5.*rectify 'none'"),
        ("dense_weight = 0.5\nloss = 'cross_entropy'", "dense_weight is 0.5.*loss 'cross_entropy'"),
        ("dense_weight = 1.0", "dense_weight is 1.0"),
        ("first_dense_weight = 0.5\nrectify = 'none'", "first_dense_weight is 0.5.*rectify 'none'"),
        ("first_dense_weight = 0.2\ndense_weight = 0.4", "first_dense_weight is 0.2.*dense_weight 0.4"),
        ("learn_temperature = true\nloss = 'spectral'", "learn_temperature is true.*'spectral'"),
        ("within_weight = 0.5", "within_weight is 0.5 for images"),
        ("first_share = 0.5", "first_share is 0.5 with share 0.0"),
        ("first_share = 0.1\nshare = 0.2\nstandardise = true", "first_share is 0.1 with share 0.2"),
        ("[modality.views]\nnoise = -1.0", r"views\.noise is -1\.0.*0"),
        ("[modality.views]\nscale = 1.0", r"views\.scale is 1\.0.*less than 1"),
        ("seed = 4294967296", "seed is 4294967296.*4294967295"),
        ("epochs =", "TOML"),
        ("[modality]\nmean = 0.5", r"mean is 0\.5.*list"),
        ("[modality]\nmean = [0.5]", r"mean is \(0.5,\).*std is \(\)"),
        ("encoder = 'vgg'", "encoder is 'vgg'.*convnet_8"),
        ("[modality]\nstem = 'small'", "stem is 'small'.*encoder 'convnet_8'"),
        ("accumulate = 0", "accumulate is 0.*1"),
        ('data = "a\\nb"', r"data is 'a\\nb'.*printable"),
        ("momentum = 1.0", r"momentum is 1\.0.*1"),
        ("rectify_weight = true", "rectify_weight is true.*loss 'info_nce'"),
        ("[modality.views]\nhue = 0.6", r"views\.hue is 0\.6.*0\.5"),
        ("[modality.views]\nflip_p = 1.5", r"views\.flip_p is 1\.5.*1"),
        ("[modality.views]\ncrop_least = 0.0", r"views\.crop_least is 0\.0.*0"),
        ("[modality.views]\nblur_least = 3.0", r"views\.blur_least is 3\.0.*views\.blur_most"),
    ],
)
def test_an_error_in_a_recipe_names_the_file_the_field_and_the_value(text, message, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        load_recipe(str(path))
    assert "mine.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_choices_in_the_config_are_those_that_exist():
    hints = typing.get_type_hints(TrainConfig)
    assert set(typing.get_args(hints["rectify"])) == {"none", *KINDS}
    for name in ENCODERS:
        TrainConfig(encoder=name)


def test_a_pipe_as_recipe_is_an_error_instead_of_a_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(InputError, match=r"pipe\.toml is not a regular file"):
        load_recipe(str(tmp_path / "pipe.toml"))


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b", "\ud800"])
def test_a_name_that_no_file_can_have_is_an_error(name):
    with pytest.raises(InputError, match="cannot be read"):
        load_recipe(name)


def test_a_recipe_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "mine.toml").write_bytes(b"\xef\xbb\xbfepochs = 7\n")
    assert load_recipe(str(tmp_path / "mine.toml")).epochs == 7


def test_an_unknown_recipe_lists_the_known_ones():
    with pytest.raises(InputError, match=r"recipe 'digit'.*cifar10.*digits"):
        load_recipe("digit")


def test_whole_numbers_are_accepted_for_floats(tmp_path):
    (tmp_path / "a.toml").write_text("weight_decay = 0")
    assert load_recipe(str(tmp_path / "a.toml")) == dataclasses.replace(TrainConfig(), weight_decay=0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"precision": "16-mixed"}, "precision is '16-mixed'.*32-true, bf16-mixed, 64-true"),
        ({"optimiser": "adam"}, "optimiser is 'adam'.*adamw, sgd, lars"),
        ({"loss": "simclr"}, "loss is 'simclr'.*info_nce"),
        ({"batch_size": "256"}, "batch_size is '256'"),
        ({"data": "caf\udce9.npy"}, r"data is 'caf\\udce9.npy'"),
    ],
)
def test_an_error_in_python_names_the_field_and_the_value(change, message):
    with pytest.raises(InputError, match=message):
        TrainConfig(**change)


def test_whole_numbers_become_floats_and_lists_become_tuples():
    config = TrainConfig(lr=1).replace(mean=[0.5], std=(1,))
    assert (config.lr, config.modality.mean, config.modality.std) == (1.0, (0.5,), (1.0,))
    assert type(config.lr) is float


def test_chunks_are_only_for_losses_that_have_them():
    with pytest.raises(InputError, match="chunk_rows is 64 with loss 'spectral'"):
        TrainConfig(loss="spectral", chunk_rows=64)


def test_only_one_way_of_saving_memory_is_used():
    with pytest.raises(InputError, match="encode_rows is 64 with accumulate 2"):
        TrainConfig(encode_rows=64, accumulate=2)


@pytest.mark.parametrize("name", ["temperature", "dense_temperature"])
def test_a_learned_temperature_must_start_where_it_may_stay(name):
    with pytest.raises(InputError, match=name):
        TrainConfig(learn_temperature=True, **{name: 5.0})


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"loss": "vicreg", "temperature": 0.5}, ["temperature"]),
        ({"loss": "sup_con", "temperature": 0.5}, []),
        ({"dense_temperature": 0.5}, ["dense_temperature"]),
        ({"dense_temperature": 0.5, "dense_weight": 0.5}, []),
        ({"projector_depth": 1, "projector_width": 99}, ["projector_width"]),
        ({"optimiser": "adamw", "momentum": 0.5, "trust": 0.5}, ["momentum", "trust"]),
        ({"optimiser": "sgd", "momentum": 0.5, "trust": 0.5}, ["trust"]),
        ({"optimiser": "lars", "momentum": 0.5, "trust": 0.5}, []),
    ],
)
def test_settings_that_nothing_uses_are_named(changes, names):
    assert TrainConfig(**changes).without_effect() == names


@pytest.mark.parametrize("name", recipes())
def test_every_setting_of_a_recipe_is_used(name):
    assert load_recipe(name).without_effect() == []
