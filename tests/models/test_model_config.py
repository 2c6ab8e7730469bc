import dataclasses

import pytest

from nonneg.errors import InputError
from nonneg.models import ModelConfig

GIVEN = {"encoder": "resnet18", "channels": 3}


def test_encoder_and_channels_suffice():
    config = ModelConfig("resnet18", 3)
    assert (config.projector_depth, config.rectify, config.stem, config.classes) == (2, "relu", "standard", 0)


def test_numbers_of_channels_are_taken_as_json_gives_them():
    config = ModelConfig("resnet18", 3, mean=[0.5, 0, 1], std=[1, 1, 1])
    assert config.mean == (0.5, 0.0, 1.0)
    assert all(type(value) is float for value in config.mean + config.std)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder": "vgg"}, "encoder is 'vgg', expected one of convnet_8, .*, resnet50, timm:NAME, transformers:NAME"),
        ({"encoder": "timm:"}, "encoder is 'timm:', expected one of"),
        ({"encoder": 3}, "encoder is 3, expected a string"),
        ({"channels": 0}, "channels is 0, expected at least 1"),
        ({"channels": True}, "channels is True, expected a whole number"),
        ({"features": 2.5}, "features is 2.5, expected a whole number"),
        ({"features": 0}, "features is 0, expected at least 1"),
        ({"stem": "tiny"}, "stem is 'tiny', expected one of standard, small, small_pad_2"),
        ({"encoder": "convnet_8", "stem": "small"}, "stem is 'small' with encoder 'convnet_8', expected standard"),
        ({"encoder": "timm:resnet18", "stem": "small"}, "stem is 'small' with encoder 'timm:resnet18'"),
        ({"pretrained": True}, "pretrained is true with encoder 'resnet18', expected one of timm: or transformers:"),
        ({"pretrained": 1}, "pretrained is 1, expected true or false"),
        ({"projector_depth": 17}, "projector_depth is 17, expected 0 to 16"),
        ({"projector_depth": 1, "projector_batch_norm": True}, "projector_batch_norm is true with projector_depth 1"),
        ({"rectify": "foo"}, "rectify is 'foo', expected one of none, relu"),
        ({"rectify": "top_k"}, "top_k is 0 with rectify 'top_k'"),
        ({"top_k": 4}, "top_k is 4 with rectify 'relu'"),
        ({"rectify": "top_k", "top_k": 300}, "top_k is 300, expected at most features, 256"),
        ({"rectify_weight": True}, "rectify_weight is true with classes 0"),
        ({"mean": (0.5,)}, r"mean is \(0.5,\), expected a finite number for each of the 3 channels, or none"),
        ({"mean": (0.5,) * 3}, r"std is \(\), expected both or neither"),
        ({"mean": (0.5,) * 3, "std": (1, 0, 1)}, r"std is \(1.0, 0.0, 1.0\), expected more than 0"),
        ({"mean": (float("nan"),) * 3, "std": (1,) * 3}, "mean is .*nan.* expected a finite number"),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(change, message):
    with pytest.raises(InputError, match=message):
        ModelConfig(**{**GIVEN, **change})


def test_it_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig("resnet18", 3).features = 5
