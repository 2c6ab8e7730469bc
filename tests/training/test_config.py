import dataclasses
import typing

import pytest

from nonneg.errors import InputError
from nonneg.modalities.images import ENCODERS
from nonneg.rectify import KINDS
from nonneg.training import TrainConfig, as_toml, load_recipe, recipes


@pytest.mark.parametrize("name", sorted(recipes()))
def test_every_recipe_loads_and_is_complete_when_written_again(name, tmp_path):
    config = load_recipe(name)
    (tmp_path / "again.toml").write_text(as_toml(config))
    assert load_recipe(str(tmp_path / "again.toml")) == config
    for field in dataclasses.fields(config):
        assert field.name in as_toml(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epocs = 3", "epocs is not a field; did you mean epochs?"),
        ("[modality.views]\nrotat = 3.0", r"modality.views.rotat is not a field; did you mean modality.views.rotate\?"),
        ("epochs = 2.5", "epochs is 2.5, expected a whole number"),
        ("epochs = true", "epochs is True, expected a whole number"),
        ("lr = 'high'", "lr is 'high', expected a number"),
        ("rectify = 'rely'", "rectify is 'rely', expected one of none, relu"),
        ("modality = 3", "modality is 3, expected a table"),
        ("[modality]\nviews = 3", "modality.views is 3, expected a table"),
        ("[modality]\nname = 'smells'", "modality.name is 'smells'"),
        ("epochs = 0", "epochs is 0, expected at least 1"),
        ("batch_size = 1", "batch_size is 1, expected at least 2"),
        ("lr = -0.1", "lr is -0.1, expected more than 0"),
        ("lr = nan", "lr is nan, expected a finite number"),
        ("[modality.views]\nnoise = inf", "views.noise is inf, expected a finite number"),
        ("a = " + "[" * 5000, "is not TOML"),
        ("epochs = 3", "warmup_epochs is 5, expected at most epochs, 3"),
        ("top_k = 3", "top_k needs 1 or more, others 0"),
        ("rectify = 'top_k'\ntop_k = 500", "top_k is 500, expected at most features"),
        ("[modality.views]\nnoise = -1.0", "views.noise is -1.0, expected at least 0"),
        ("[modality.views]\nscale = 1.0", "views.scale is 1.0, expected less than 1"),
        ("seed = 4294967296", "seed is 4294967296, expected at most 4294967295"),
        ("epochs =", "is not TOML"),
        ("[modality]\nmean = 0.5", "mean is 0.5, expected a list"),
        ("[modality]\nmean = [0.5]", r"mean is \(0.5,\) and std is \(\)"),
        ("encoder = 'vgg'", "encoder is 'vgg', expected one of convnet_8"),
        ("[modality]\nstem = 'small'", "stem is 'small' with encoder 'convnet_8'"),
        ("accumulate = 0", "accumulate is 0, expected at least 1"),
        ('data = "a\\nb"', "expected a path of printable characters"),
        ("momentum = 1.0", "momentum is 1.0, expected less than 1"),
        ("rectify_weight = true", "rectify_weight is true with loss 'info_nce'"),
        ("[modality.views]\nhue = 0.6", "views.hue is 0.6, expected at most 0.5"),
        ("[modality.views]\nflip_p = 1.5", "views.flip_p is 1.5, expected at most 1"),
        ("[modality.views]\ncrop_least = 0.0", "views.crop_least is 0.0, expected more than 0"),
        ("[modality.views]\nblur_least = 3.0", "views.blur_least is 3.0, expected at most views.blur_most"),
    ],
)
def test_a_wrong_recipe_is_refused_by_the_field(text, message, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        load_recipe(str(path))
    assert "mine.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_choices_are_those_that_exist():
    hints = typing.get_type_hints(TrainConfig)
    assert set(typing.get_args(hints["rectify"])) == {"none", *KINDS}
    for name in ENCODERS:
        TrainConfig(encoder=name)


def test_an_unknown_recipe_lists_the_known_ones():
    with pytest.raises(InputError, match="'digit' is neither a file nor one of the recipes cifar10"):
        load_recipe("digit")


def test_a_whole_number_is_taken_for_a_number(tmp_path):
    (tmp_path / "a.toml").write_text("weight_decay = 0")
    assert load_recipe(str(tmp_path / "a.toml")) == dataclasses.replace(TrainConfig(), weight_decay=0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"precision": "16-mixed"}, "precision is '16-mixed', expected one of 32-true, bf16-mixed, 64-true"),
        ({"optimiser": "adam"}, "optimiser is 'adam', expected one of adamw, sgd, lars"),
        ({"loss": "simclr"}, "loss is 'simclr', expected one of info_nce"),
        ({"batch_size": "256"}, "batch_size is '256', expected a whole number"),
        ({"data": "caf\udce9.npy"}, "expected a path of printable characters"),
    ],
)
def test_wrong_values_are_refused_in_python_too(change, message):
    with pytest.raises(InputError, match=message):
        TrainConfig(**change)


def test_numbers_and_lists_are_taken_as_they_are_meant():
    config = TrainConfig(lr=1).replace(mean=[0.5], std=(1,))
    assert (config.lr, config.modality.mean, config.modality.std) == (1.0, (0.5,), (1.0,))
    assert type(config.lr) is float
